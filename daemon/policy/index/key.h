/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Keys: numbers (hashes) by which rules are found. Each kind of match that can be looked up is a dimension. A
 * match has a few keys in its dimension, and a question whose fact is known has a few keys too. If the match
 * holds, the two have a key in common. But they can have a key in common although the match does not hold.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/rule/condition.h"

#define KEY_LENGTHS 163 /* addresses have the most: 33 for IPv4, 129 for IPv6, and 1 for sets */
#define KEY_MATCH_MAX 1024 /* maximum number of keys of one match */
#define KEY_FACT_MAX 1024 /* maximum number of keys of one fact */

/*
 * The length of a key shows which part of a value was hashed, for example the number of leading bits of an address.
 * This struct collects the lengths of the keys of matches in one dimension. A question needs keys of these lengths
 * only.
 */
struct key_lengths {
	size_t n;
	uint8_t lengths[KEY_LENGTHS];
	bool has[KEY_LENGTHS];
};

struct key {
	uint64_t hash;
	uint8_t length;
};

void key_lengths_add(struct key_lengths *lengths, unsigned length);

/*
 * Makes the keys of a match. RET has space for KEY_MATCH_MAX. *ret_set is the set if the only key is that of a
 * set with more than one prefix, else NULL. Returns the number of keys; 0: there are too many, or the match cannot
 * be looked up.
 */
size_t key_from_match(const struct policy_match *match, struct key *ret,
		      const struct prefix_set **ret_set);
enum key_state {
	KEY_UNKNOWN, /* the fact is not known; the match function returns TERNARY_UNKNOWN */
	KEY_KNOWN,
	KEY_TOO_MANY, /* the fact is known, but has too many keys to look up */
};

/*
 * Makes the keys of a question in DIMENSION. RET has space for KEY_FACT_MAX, and is valid if KEY_KNOWN is
 * returned.
 */
enum key_state key_from_facts(enum key_dimension dimension, const struct policy_facts *facts,
			      const struct key_lengths *lengths, uint64_t *ret, size_t *ret_n);

/*
 * A rule with a set of several prefixes is found in two steps. First the address is looked up by the keys of its
 * prefixes, whose dimension is KEY_NONE. This gives the numbers of the sets that contain it. Then each number is
 * looked up by key_from_set(), which gives the rules. With one step, each rule would have to be filed under each
 * prefix of its set.
 */
uint64_t key_from_set(enum key_dimension dimension, size_t number);
struct key key_from_prefix(const struct prefix *prefix);
/* Makes the keys of an address for the first step. RET has space for KEY_LENGTHS. */
size_t key_from_address(const struct prefix *address, const struct key_lengths *lengths,
			uint64_t *ret);

static inline uint64_t key_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}
