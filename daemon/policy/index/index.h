/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Finds the rules that can match a question, without examining all rules.
 *
 * Each rule is filed by the keys (see key.h) that it has in one dimension or two: those in which few other rules have
 * the same keys. A second dimension is added if the first finds too many rules, or if its fact can be unknown. A rule
 * without keys, or with so many that the index would become too large, is filed by no dimension.
 *
 * A rule that is filed by two dimensions is in a list for each pair of keys, a list for each single key, and a list
 * without a key. So a question finds the rule even if it knows the fact of only one dimension, or of none. The lists
 * that a question finds are merged in the order of the rules.
 *
 * The result contains each rule that matches, and each wanted rule (MAYBE_ALLOW, MAYBE_REJECT) for which unknown
 * facts decide whether it matches. The result can contain other rules, so the caller has to call the match functions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy_condition;
struct policy_facts;
struct policy_index;
struct policy_match;

/* The rules before this one are in no list, because to examine them all is faster. */
#define INDEX_FIRST_RULE 16
/* If a question needs more lists than this, all rules are examined instead. */
#define INDEX_LISTS_MAX 256

/*
 * Flags of candidates_init(): allow rules, or reject rules, are wanted if unknown facts decide whether they match.
 * Without its flag, such a rule can be a candidate nevertheless.
 */
enum {
	MAYBE_ALLOW = 1 << 0,
	MAYBE_REJECT = 1 << 1,
};

/* Iterates over the rules that can match a question, in order. */
struct candidates {
	const struct policy_index *index; /* NULL: all rules */
	const struct policy_facts *facts;
	unsigned wanted;
	/* number of the next rule; the rules below N_PLAIN are candidates without look-up */
	size_t next;
	size_t n_plain;
	size_t n_rules;
	bool has_lists;
	size_t n_lists;
	/* a heap; the list with the lowest rule number is at the top */
	const uint32_t *lists[INDEX_LISTS_MAX];
};

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

/*
 * Begins an iteration at the rule FIRST. If INDEX is NULL, all rules are candidates. FACTS must outlive CANDIDATES.
 */
void candidates_init(struct candidates *candidates, const struct policy_index *index,
		     size_t n_rules, const struct policy_facts *facts, unsigned wanted,
		     size_t first);
bool candidates_next(struct candidates *candidates, size_t *ret);
