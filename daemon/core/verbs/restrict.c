/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/object/restriction.h"
#include "core/verbs/restrict.h"
#include "core/verbs/session_life.h"
#include "util/diag.h"
#include "util/util.h"

DEFINE_CLEANUP(struct diag *, diag_free)
DEFINE_CLEANUP(struct policy *, policy_unref)

static bool is_same(const struct restriction *restriction, const char *text, unsigned max_ids)
{
	return restriction && strcmp(restriction->text, text) == 0 &&
	       restriction->max_ids == max_ids;
}

static int check(const struct session *session, struct failure *failure)
{
	const struct restriction *parent = session->restriction;

	if (session_count_ids(session) > 0 || !list_is_empty(&session->leases) || session->watch)
		return failure_set(failure, STATUS_BAD_STATE,
				   "restrict: the session has ids, devices or a watch already");
	if (parent && parent->depth >= RESTRICTION_DEPTH_MAX)
		return failure_set(failure, STATUS_QUOTA,
				   "restrict: the session has %d restrictions already",
				   RESTRICTION_DEPTH_MAX);
	return 0;
}

static int parse(struct policy **ret, const char *text, struct failure *failure)
{
	_cleanup_(diag_freep) struct diag *diag = NULL;
	int r;

	if (strlen(text) >= RESTRICTION_TEXT_MAX)
		return failure_set(failure, STATUS_BAD_REQUEST,
				   "restrict: the rules are longer than %d bytes",
				   RESTRICTION_TEXT_MAX - 1);
	r = diag_new(&diag);
	if (r == 0)
		r = policy_load_restriction(ret, RESTRICTION_NAME, text, strlen(text), diag);
	if (r == -EBADMSG)
		return failure_set(failure, STATUS_BAD_REQUEST, "restrict: %s",
				   complaints_at(&diag->errors, 0) ?: "the rules have an error");
	if (r == 0 && policy_n_rules(*ret) > RESTRICTION_RULES_MAX)
		return failure_set(failure, STATUS_BAD_REQUEST,
				   "restrict: there are more than %d rules", RESTRICTION_RULES_MAX);
	return failure_errno(failure, r);
}

/* The parsed rules, on one line each and without comments; or TEXT, if they are longer. */
static const char *tidy(const struct policy *policy, const char *text,
			char space[RESTRICTION_TEXT_MAX])
{
	size_t n = 0;

	space[0] = 0;
	for (size_t i = 0; i < policy_n_rules(policy) && n < RESTRICTION_TEXT_MAX; i++)
		n += (size_t)snprintf(space + n, RESTRICTION_TEXT_MAX - n, "%s%s",
				      i > 0 ? "\n" : "", policy_rule_at(policy, i)->text);
	return n < RESTRICTION_TEXT_MAX ? space : text;
}

int restrict_session(struct session *session, const char *text, unsigned max_ids,
		     struct failure *failure)
{
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	struct core *core = session->core;
	struct restriction *restriction;
	char space[RESTRICTION_TEXT_MAX];
	int r;

	r = parse(&policy, text, failure);
	if (r != 0)
		return r;
	text = tidy(policy, text, space);
	if (is_same(session->restriction, text, max_ids))
		return 0;
	r = check(session, failure);
	if (r != 0)
		return r;
	r = restriction_new(&restriction, core, session->restriction, core_next_number(core), text,
			    TAKE_PTR(policy), max_ids);
	if (r < 0)
		return failure_errno(failure, r);
	restriction_unref(session->restriction);
	session->restriction = restriction;
	/* Permits are what policy and restriction allow together. */
	session->permits = (session->permits & SESSION_PERMIT_CLIENT) |
			   session_permits_over_others(session, /* counts= */ false);
	session_save(session);
	return 0;
}
