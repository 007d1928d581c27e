/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What a match and a question have in common, as a number. Each kind of match that can be looked up is a
 * dimension. In it a match has a few keys, and a question whose fact is known has a few keys too: where
 * the match holds, one of these is one of those. The reverse need not be so.
 *
 * A key belongs to a length, because a prefix can only be looked up by the length it has. A question has
 * one key for each length that the index has seen (for groups: one for each group).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy_facts;
struct policy_match;
struct prefix;
struct prefix_set;

/* The first ones are always known, so that rules are better found by them than by others. */
enum key_dimension {
	KEY_NONE,
	KEY_USER,
	KEY_GROUP,
	KEY_UNIT,
	KEY_PS,
	KEY_PORT,
	KEY_DEVICE,
	KEY_PEER,
	KEY_LOCAL,
	KEY_DATA,
	_KEY_DIMENSION_MAX,
};

#define KEY_LAST_CERTAIN KEY_GROUP

#define KEY_LENGTHS 163 /* addresses have most: 33 of IPv4, 129 of IPv6, and sets */
#define KEY_MATCH_MAX 1024 /* keys of one match */
#define KEY_FACT_MAX 1024 /* keys of one fact */

/* The lengths that are in use in one dimension. */
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
 * RET holds KEY_MATCH_MAX, and *ret_set is the set whose number is the only key, or NULL. Returns how many
 * there are; 0: too many, or none that can be looked up.
 */
size_t key_from_match(const struct policy_match *match, struct key *ret,
		      const struct prefix_set **ret_set);
enum key_state {
	KEY_UNKNOWN, /* the fact is not known: the match says so too */
	KEY_KNOWN,
	KEY_TOO_MANY, /* known, but to look up all of it does not pay */
};

/* RET holds KEY_FACT_MAX, and is valid if the answer is KEY_KNOWN. */
enum key_state key_from_facts(enum key_dimension dimension, const struct policy_facts *facts,
			      const struct key_lengths *lengths, uint64_t *ret, size_t *ret_n);

/*
 * A rule with a set of several prefixes is found in two steps: from the address to the numbers of the
 * sets that hold it, by keys in no dimension, and from such a number to the rules. Else each rule would
 * have to be filed by each prefix of its set.
 */
uint64_t key_from_set(enum key_dimension dimension, size_t number);
struct key key_from_prefix(const struct prefix *prefix);
/* RET holds KEY_LENGTHS. */
size_t key_from_address(const struct prefix *address, const struct key_lengths *lengths,
			uint64_t *ret);

static inline uint64_t key_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}
