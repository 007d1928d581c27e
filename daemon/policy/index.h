/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Finds the rules that a question can meet, so that not all of them need to be looked at.
 *
 * Each rule is filed under one way to find it: the dimension in which its keys are rarest, or two
 * dimensions together where one leaves too many. Under a way of two it is filed by both of its keys, by
 * each alone, and by none: a question takes the narrowest list for which it knows the facts. Rules
 * without a key are in the list of the way without dimensions. The lists of a question, a few, are
 * merged in the order of the rules.
 *
 * What comes out is every rule that may match, and some that do not: the matches themselves decide.
 * Lists are found by hashes alone; two keys with the same hash share a list, which does no harm.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy;
struct policy_facts;
struct policy_index;

/* The first rules are in no list: to look at so few is faster than to look them up. */
#define INDEX_FIRST_RULE 16
/* More lists than this are not merged: then all rules are looked at. */
#define INDEX_LISTS_MAX 256

/*
 * Which rules are wanted of those for which it is not known whether they match. Others can come along.
 */
enum {
	MAYBE_ALLOW = 1 << 0,
	MAYBE_REJECT = 1 << 1,
};

/* The rules that a question can meet, in order. On the stack of a decision. */
struct candidates {
	const struct policy_index *index; /* NULL: all rules */
	const struct policy_facts *facts;
	unsigned wanted;
	size_t next; /* while it is below n_plain: no lists are needed yet */
	size_t n_plain;
	size_t n_rules;
	bool has_lists;
	size_t n_lists;
	const uint32_t *lists[INDEX_LISTS_MAX]; /* a heap, that with the first rule at its top */
};

/*
 * filing.c. Memory is linear in the rules and the prefixes of their sets. *ret is NULL for a policy that
 * needs none. Returns 0 or -ENOMEM.
 */
int policy_index_new(struct policy_index **ret, const struct policy *policy);
struct policy_index *policy_index_free(struct policy_index *index);

/* From the rule FIRST on. INDEX can be NULL. FACTS must outlive the candidates. */
void candidates_init(struct candidates *candidates, const struct policy_index *index,
		     size_t n_rules, const struct policy_facts *facts, unsigned wanted,
		     size_t first);
/* The next candidate's position, or false at the end. */
bool candidates_next(struct candidates *candidates, size_t *ret);
