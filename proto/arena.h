/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Memory for one decoded packet, as an allocator for protobuf-c. It is taken from a block of the caller and, if that
 * is full, from further blocks of malloc(). Their size is limited, because a field of two bytes can need some hundred
 * bytes. Single allocations cannot be freed.
 */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block {
	struct arena_block *next; /* NULL: the last block */
	size_t size, used; /* bytes of SPACE */
	_Alignas(max_align_t) uint8_t space[];
};

/* Needed only while a packet is decoded. Must not be moved, because ALLOCATOR points to it. */
struct arena {
	ProtobufCAllocator allocator;
	struct arena_block *last;
	size_t block_size; /* minimum size of a further block */
	size_t more, more_max; /* bytes in further blocks, and their limit */
};

/*
 * FIRST is uninitialised, and has SIZE bytes of space, a multiple of the largest alignment. The first allocation is
 * at the beginning of that space.
 *
 * An allocation for which the last block has no room gets a further block. It fails if it is larger than MORE_MAX, or
 * if the further blocks have more than MORE_MAX bytes already. If MORE_MAX is 0, there are no further blocks, and
 * arena_free() need not be called.
 */
void arena_init(struct arena *arena, struct arena_block *first, size_t size, size_t more_max);

static inline size_t arena_align(size_t size)
{
	return (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
}

/* SIZE bytes of the last block; NULL: it has no room. */
static inline void *arena_take(struct arena *arena, size_t size)
{
	struct arena_block *block = arena->last;
	void *ret = block->space + block->used;

	if (size > block->size - block->used)
		return NULL;
	block->used += arena_align(size);
	return ret;
}

/* Gives back all that arena_take() has returned. Nothing may have been taken from a further block. */
static inline void arena_give_back(struct arena *arena)
{
	arena->last->used = 0;
}

/* Frees FIRST, which must come from malloc(), and the further blocks. Takes NULL. */
void arena_free(struct arena_block *first);
