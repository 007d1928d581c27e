/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The internals of a policy, for daemon/policy/ only. A rule is stored in two parts: struct policy_rule,
 * which other folders may read, and struct policy_condition, whose eight bytes are read in a decision,
 * together with the rule's matches.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"
#include "policy/rule/condition.h"

#define POLICY_RULES_MAX 100000
/* in all sets together; a set contains copies of the prefixes of the sets that it refers to */
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
	size_t n_prefixes; /* number of prefixes in all sets */
	struct policy_index *index; /* NULL: the policy has so few rules that it needs no index */

	struct policy_block *blocks; /* memory that policy_alloc() has handed out */

	bool is_fallback;
	size_t n_missing; /* number of names that could not be looked up */
	const char *first_missing; /* the complaint about the first of these names; NULL: none */
	/*
	 * The texts that the policy was loaded from. They are kept while names are missing, so that copies of
	 * them can be parsed again.
	 */
	struct source **sources;
	size_t n_sources;
};

int policy_new(struct policy **ret);
/* Returns zeroed memory that lives as long as the policy does; NULL: out of memory. */
void *policy_alloc(struct policy *policy, size_t size);
/* Copies TEXT to memory from policy_alloc(). */
char *policy_strdup(struct policy *policy, const char *text);
int policy_add_match(struct policy *policy, const struct policy_match *match);
/* Adds a rule, whose matches are the last N_MATCHES that were added. Sets the rule's INDEX. */
int policy_add_rule(struct policy *policy, const struct policy_rule *rule, unsigned operations,
		    size_t n_matches);
/* Frees the sources, which a policy without missing names does not need. */
void policy_forget_sources(struct policy *policy);
/* Makes the index. Call this after the last rule was added. Returns 0 or -ENOMEM. */
int policy_finish(struct policy *policy);

/* Decides as policy_decide() does, but examines all rules instead of using the index. For tests. */
void policy_decide_scan(const struct policy *policy, const struct policy_question *question,
			struct policy_verdict *ret);
