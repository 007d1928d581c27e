/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Finds the rules that can match a question, so that not all rules need to be examined.
 *
 * Each rule is filed under one "way": the dimension (see key.h) in which the fewest other rules have the
 * rule's keys, or two dimensions if one leaves too many rules. Under a way of two dimensions a rule is in
 * several lists: those of its pairs of keys, those of its single keys, and one without a key. So a question that
 * does not know the facts of both dimensions finds the rule too; it uses the narrowest lists for which it knows
 * the facts. Rules without a key are filed under the way without dimensions. A question uses a few lists,
 * which are merged in the order of the rules.
 *
 * The result contains every rule that may match, and some that do not match: the match functions decide.
 * Lists are found by hashes alone. If two keys have the same hash, they share a list; then more rules than
 * necessary are examined.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy_condition;
struct policy_facts;
struct policy_index;
struct policy_match;

/* The rules before this one are in no list, because it is faster to examine so few rules than to look them up. */
#define INDEX_FIRST_RULE 16
/* If a question needs more lists than this, all rules are examined instead. */
#define INDEX_LISTS_MAX 256

/*
 * Flags of candidates_init(). If unknown facts decide whether a rule matches, the caller wants the rule as a
 * candidate only if it is an allow rule, only if it is a reject rule, or in both cases. The candidates may
 * include the other rules as well.
 */
enum {
	MAYBE_ALLOW = 1 << 0,
	MAYBE_REJECT = 1 << 1,
};

/* Iterates over the rules that can match a question, in order. Lives on the stack during a decision. */
struct candidates {
	const struct policy_index *index; /* NULL: all rules */
	const struct policy_facts *facts;
	unsigned wanted;
	/* number of the next rule; below N_PLAIN all rules are candidates, without lists */
	size_t next;
	size_t n_plain;
	size_t n_rules;
	bool has_lists;
	size_t n_lists;
	/* a heap; the list with the lowest rule number is at the top */
	const uint32_t *lists[INDEX_LISTS_MAX];
};

/* The rules of a policy, for policy_index_new(). */
struct policy_index_rules {
	const struct policy_condition *conditions; /* one for each rule */
	size_t n_rules;
	const struct policy_match *matches;
	size_t n_sets; /* the numbers of the sets in MATCHES are below this */
};

/*
 * Makes an index (index_make.c). Its memory is linear in the number of rules and of prefixes in their sets.
 * *ret is NULL if there are so few rules that they need no index. Returns 0 or -ENOMEM.
 */
int policy_index_new(struct policy_index **ret, const struct policy_index_rules *rules);
struct policy_index *policy_index_free(struct policy_index *index);

/* Begins an iteration at the rule FIRST. INDEX can be NULL. FACTS must outlive the candidates. */
void candidates_init(struct candidates *candidates, const struct policy_index *index,
		     size_t n_rules, const struct policy_facts *facts, unsigned wanted,
		     size_t first);
/* Gets the position of the next candidate. False: there are no more. */
bool candidates_next(struct candidates *candidates, size_t *ret);
