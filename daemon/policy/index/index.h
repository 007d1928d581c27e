/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Finds the rules that can match a question, so that not all rules need to be examined.
 *
 * Each rule from INDEX_FIRST_RULE on is filed under one "way": one or two dimensions (see key.h) in which few other
 * rules have the rule's keys. A second dimension is used if one leaves too many rules, or if questions may not know
 * the fact of the first. A rule without keys is filed under the way without dimensions, and so is a rule whose
 * keys would make the index too large.
 *
 * Under a way of two dimensions a rule is in several lists: one for each of its pairs of keys, one for each single
 * key, and one without a key. So a question finds the rule even if it knows the fact of one dimension only, or of
 * none: it uses the narrowest lists for which it knows the facts. The lists that a question uses are merged in the
 * order of the rules.
 *
 * The result contains every rule that matches, and each wanted rule (MAYBE_ALLOW, MAYBE_REJECT) for which unknown
 * facts decide whether it matches. It can contain other rules as well: the match functions decide. Lists are found by
 * hashes alone. If two keys have the same hash, they share a list, and more rules than necessary are examined.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy_condition;
struct policy_facts;
struct policy_index;
struct policy_match;

/* The rules before this one are in no list: to examine these few is faster than to look them up. */
#define INDEX_FIRST_RULE 16
/* If a question needs more lists than this, all rules are examined instead. */
#define INDEX_LISTS_MAX 256

/*
 * Flags of candidates_init(). If unknown facts decide whether a rule matches, the caller wants the rule as a
 * candidate only if it is an allow rule, only if it is a reject rule, or in both cases. The candidates can
 * include the unwanted rules as well.
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

/* Begins an iteration at the rule FIRST. INDEX NULL: all rules are candidates. FACTS must outlive the candidates. */
void candidates_init(struct candidates *candidates, const struct policy_index *index,
		     size_t n_rules, const struct policy_facts *facts, unsigned wanted,
		     size_t first);
/* Gets the position of the next candidate. False: there are no more. */
bool candidates_next(struct candidates *candidates, size_t *ret);
