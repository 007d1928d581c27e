/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* How an index lies in memory: for filing.c, which makes it, and index.c, which asks it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/key.h"
#include "policy/policy.h"

#define WAYS_MAX (1 + (_KEY_DIMENSION_MAX - 1) * _KEY_DIMENSION_MAX / 2)

/* KEY_NONE: not used. The second is used only if the first is. */
struct way {
	uint8_t dimensions[2];
};

/* Which of a way's dimensions a list is filed by; a bit each. */
#define BY_FIRST 1u
#define BY_SECOND 2u
/*
 * A list that is not filed by all of its way's dimensions is two: with this bit those that reject, without
 * it those that allow. Of rules whose match is not known some questions want only the one or the other.
 */
#define OF_REJECTS 4u

static inline unsigned way_all(struct way way)
{
	return (way.dimensions[0] ? BY_FIRST : 0) | (way.dimensions[1] ? BY_SECOND : 0);
}

/* The last number of a list has this bit. */
#define LAST (UINT32_C(1) << 31)

struct slot {
	uint32_t tag; /* part of a hash; 0: the slot is free */
	uint32_t list; /* the number of the only rule, with LAST, or where the list begins */
};

struct policy_index {
	struct slot *slots;
	size_t n_slots; /* a power of two, less than half of them in use */
	size_t n_used;
	uint32_t *lists; /* those of more than one, one behind the other */
	struct key_lengths lengths[_KEY_DIMENSION_MAX]; /* of KEY_NONE: of the members of sets */
	struct {
		size_t n;
		struct way ways[WAYS_MAX];
		unsigned dimensions; /* of all of them; bit i: dimension i */
	} operations[_POLICY_OPERATION_MAX];
};

static inline uint64_t hash_entry(unsigned operation, struct way way, unsigned by, uint64_t first,
				  uint64_t second)
{
	uint64_t what = operation << 24 | way.dimensions[0] << 16 | way.dimensions[1] << 8 | by;

	return key_mix(key_mix(what, first), second);
}

/* From an address to the numbers of the sets that hold it. */
static inline uint64_t hash_member(uint64_t key)
{
	return hash_entry(_POLICY_OPERATION_MAX, (struct way){}, 0, key, 0);
}

static inline uint32_t tag_of(uint64_t hash)
{
	return hash >> 32 | 1;
}

/* The slot of HASH, or the free one where it belongs. */
static inline struct slot *find_slot(struct slot *slots, size_t n_slots, uint64_t hash)
{
	size_t i = hash & (n_slots - 1);

	while (slots[i].tag && slots[i].tag != tag_of(hash))
		i = (i + 1) & (n_slots - 1);
	return &slots[i];
}
