/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The internals of a policy, for daemon/policy/ only. A rule has two parts: struct policy_rule for other folders, and
 * struct policy_condition, its matches. Most decisions read neither, but the rows of rows.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"
#include "policy/rows.h"
#include "policy/rule/condition.h"

#define POLICY_RULES_MAX 100000
/* in all sets together; a set has copies of the prefixes of the sets that it refers to */
#define POLICY_PREFIXES_MAX 1000000

struct source;

struct policy {
	size_t n_refs;

	struct policy_rule *rules;
	struct policy_condition *conditions; /* one for each rule */
	size_t n_rules;
	size_t n_rules_allocated;

	struct policy_match *matches;
	size_t n_matches;
	size_t n_matches_allocated;

	size_t n_prefixes; /* in all sets together */
	struct policy_rows rows;

	struct policy_block *blocks; /* memory from policy_alloc() */

	bool is_fallback;
	bool asks; /* a rule depends on who the peer is */
	bool has_pkey; /* a rule depends on the partition */
	size_t n_warn_rules;
	size_t n_missing; /* number of names that could not be looked up */
	const char *first_missing; /* the complaint about the first of these names; NULL: none */
	/*
	 * The texts that the policy was loaded from, for policy_load_again(). Freed after loading if no names are
	 * missing.
	 */
	struct source **sources;
	size_t n_sources;
};

int policy_new(struct policy **ret);
/* Returns zeroed memory that lives as long as POLICY; NULL: out of memory. */
void *policy_alloc(struct policy *policy, size_t size);
/* NULL: out of memory. */
char *policy_strdup(struct policy *policy, const char *text);
int policy_add_match(struct policy *policy, const struct policy_match *match);
/* Adds a rule with the last N_MATCHES matches that were added. Sets INDEX in the copy of RULE. */
int policy_add_rule(struct policy *policy, const struct policy_rule *rule, unsigned operations,
		    size_t n_matches);
/* A policy without missing names does not need its sources. */
void policy_forget_sources(struct policy *policy);
