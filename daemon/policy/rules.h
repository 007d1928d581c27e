/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The parts of a policy; only daemon/policy/ includes this. A rule is stored in two parts: struct policy_rule,
 * which may be shown outside, and struct policy_condition, whose eight bytes are read in a decision, together with
 * its matches.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"
#include "policy/rule/condition.h"

#define POLICY_RULES_MAX 100000
/* in all sets together: a set copies the sets that it refers to */
#define POLICY_PREFIXES_MAX 1000000

struct policy_index;
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

	size_t n_sets; /* includes a set for each match with a single prefix */
	size_t n_prefixes; /* in all sets */
	struct policy_index *index; /* NULL: too few rules */

	struct policy_block *blocks; /* memory from policy_alloc() */

	bool is_fallback;
	size_t n_missing; /* number of names that could not be looked up */
	const char *first_missing; /* the complaint about the first one; NULL: none */
	/*
	 * The texts that the policy was loaded from, kept while names are missing; copies of them are parsed
	 * again.
	 */
	struct source **sources;
	size_t n_sources;
};

int policy_new(struct policy **ret);
/* Zeroed memory that lives as long as the policy does, or NULL. */
void *policy_alloc(struct policy *policy, size_t size);
char *policy_strdup(struct policy *policy, const char *text); /* likewise */
int policy_add_match(struct policy *policy, const struct policy_match *match);
/* The rule's matches are the last N_MATCHES that were added; its INDEX is set here. */
int policy_add_rule(struct policy *policy, const struct policy_rule *rule, unsigned operations,
		    size_t n_matches);
/* Frees the sources, which a policy without missing names does not need. */
void policy_forget_sources(struct policy *policy);
/* Call after the last rule: makes the index. Returns 0 or -ENOMEM. */
int policy_finish(struct policy *policy);

/* Decides like policy_decide(), but examines all rules. For tests. */
void policy_decide_scan(const struct policy *policy, const struct policy_question *question,
			struct policy_verdict *ret);
