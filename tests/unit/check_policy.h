/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Shared by the tests of the rule language: one policy, and its errors. */

#include <errno.h>
#include <string.h>

#include "policy/policy.h"
#include "tests/unit/unit.h"
#include "util/diag.h"

static struct diag *diag;
static struct policy *policy;

static inline void policy_set_up(void)
{
	ck_assert_int_eq(diag_new(&diag), 0);
}

static inline void policy_tear_down(void)
{
	policy = policy_unref(policy);
	diag = diag_free(diag);
}

static inline void forget(void)
{
	policy_tear_down();
	policy_set_up();
}

static inline int load_bytes(const char *text, size_t len)
{
	forget();
	return policy_load_text(&policy, "t", text, len, diag);
}

static inline void load(const char *text)
{
	int r = load_bytes(text, strlen(text));

	ck_assert_msg(r == 0, "%d: %s\n%s", r, complaints_at(&diag->errors, 0), text);
	ck_assert_uint_eq(diag->errors.n, 0);
}

/* Checks that loading TEXT gives EXPECTED as the only error. */
static inline void assert_refused(const char *text, const char *expected)
{
	ck_assert_int_eq(load_bytes(text, strlen(text)), -EBADMSG);
	ck_assert_ptr_null(policy);
	ck_assert_msg(complaints_at(&diag->errors, 0) &&
			      !strcmp(complaints_at(&diag->errors, 0), expected),
		      "'%s'\n     was: %s\nexpected: %s", text, complaints_at(&diag->errors, 0),
		      expected);
	ck_assert_msg(diag->errors.n == 1, "'%s': also %s", text, complaints_at(&diag->errors, 1));
}

static inline const struct policy_rule *rule(const char *text)
{
	load(text);
	ck_assert_uint_eq(policy_n_rules(policy), 1);
	return policy_rule_at(policy, 0);
}
