/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The memory layout of an index, which index_make.c makes and index.c searches. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/index/key.h"
#include "policy/rule/question.h"

#define WAYS_MAX (1 + (_KEY_DIMENSION_MAX - 1) * _KEY_DIMENSION_MAX / 2)

/* The dimensions that a rule is filed by. KEY_NONE: not used. If the first is not used, neither is the second. */
struct way {
	uint8_t dimensions[2];
};

/* Bits: which of a way's dimensions are part of a list's hash. */
#define BY_FIRST 1u
#define BY_SECOND 2u
/*
 * If a list's hash lacks a dimension of its way, allow rules and reject rules have separate lists. This bit is set in
 * the hash of the reject rules' list. A question that does not know the fact of the dimension can need one of them
 * only.
 */
#define OF_REJECTS 4u

static inline unsigned way_all(struct way way)
{
	return (way.dimensions[0] ? BY_FIRST : 0) | (way.dimensions[1] ? BY_SECOND : 0);
}

/* A bit that is set in the last number of a list. */
#define LAST (UINT32_C(1) << 31)

struct slot {
	uint32_t tag; /* part of a hash; 0: the slot is free */
	/* a single number, with LAST set; or the position in policy_index.lists where the list begins */
	uint32_t list;
};

struct policy_index {
	struct slot *slots;
	size_t n_slots; /* a power of two; at most half of them are in use */
	size_t n_used;
	uint32_t *lists; /* all lists of more than one number, one after the other */
	/* the lengths that keys have, by dimension; KEY_NONE has no keys: there, the lengths of the prefixes in sets */
	struct key_lengths lengths[_KEY_DIMENSION_MAX];
	struct {
		size_t n;
		struct way ways[WAYS_MAX];
		unsigned dimensions; /* used by any of WAYS; bit i: dimension i */
	} operations[_POLICY_OPERATION_MAX];
};

static inline uint64_t hash_entry(unsigned operation, struct way way, unsigned by, uint64_t first,
				  uint64_t second)
{
	uint64_t what = operation << 24 | way.dimensions[0] << 16 | way.dimensions[1] << 8 | by;

	return key_mix(key_mix(what, first), second);
}

/* The hash of the list that contains the numbers of all sets that have a prefix with this key. */
static inline uint64_t hash_member(uint64_t key)
{
	return hash_entry(_POLICY_OPERATION_MAX, (struct way){}, 0, key, 0);
}

static inline uint32_t tag_of(uint64_t hash)
{
	return hash >> 32 | 1;
}

/* Returns the slot of HASH, or the free slot where to put HASH. */
static inline struct slot *find_slot(struct slot *slots, size_t n_slots, uint64_t hash)
{
	size_t i = hash & (n_slots - 1);

	while (slots[i].tag && slots[i].tag != tag_of(hash))
		i = (i + 1) & (n_slots - 1);
	return &slots[i];
}
