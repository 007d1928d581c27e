/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Keys are hashes by which rules are found. A match has keys in its dimension (see enum key_dimension), and so has
 * each known fact of a question. If the match holds, both have a key in common; they can also have one if it does not
 * hold.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/rule/condition.h"

#define KEY_LENGTHS 163 /* addresses have the most: 33 for IPv4, 129 for IPv6, and 1 for sets */
#define KEY_MATCH_MAX 1024 /* maximum number of keys of one match */
#define KEY_FACT_MAX 1024 /* maximum number of keys of one fact */

/*
 * A key's length shows how much of a value was hashed, for example how many leading bits of an address. A question
 * needs only keys of the lengths that the matches have.
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
 * RET has space for KEY_MATCH_MAX. *ret_set: the set of a match with several prefixes, whose only key is that of the
 * set; else NULL. Returns the number of keys; 0: there are too many, or the match cannot be looked up.
 */
size_t key_from_match(const struct policy_match *match, struct key *ret,
		      const struct prefix_set **ret_set);
enum key_state {
	KEY_UNKNOWN, /* the fact is not known; the match function returns TERNARY_UNKNOWN */
	KEY_KNOWN,
	KEY_TOO_MANY, /* the fact is known, but has too many keys to look up */
};

/* RET has space for KEY_FACT_MAX, and is valid if KEY_KNOWN is returned. */
enum key_state key_from_facts(enum key_dimension dimension, const struct policy_facts *facts,
			      const struct key_lengths *lengths, uint64_t *ret, size_t *ret_n);

/*
 * A rule with a set of several prefixes is found in two steps, so that it need not be filed by each prefix. First
 * key_from_address() gives the keys that find the sets of an address. Then key_from_set() gives the key that finds
 * the rules of a set.
 */
uint64_t key_from_set(enum key_dimension dimension, size_t number);
struct key key_from_prefix(const struct prefix *prefix);
/* RET has space for KEY_LENGTHS keys. Returns their number. */
size_t key_from_address(const struct prefix *address, const struct key_lengths *lengths,
			uint64_t *ret);

static inline uint64_t key_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}
