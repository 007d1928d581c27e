/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Memory for one decoded packet, as an allocator for protobuf-c. The memory is taken from a block that the
 * caller provides and, if that is full, from further blocks of malloc(). These are limited, because a field
 * of two bytes can become a message of some hundred bytes. Single allocations cannot be freed, only all of them
 * together.
 */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block {
	struct arena_block *next; /* the next block; NULL: this is the last one */
	size_t size, used; /* bytes of SPACE */
	_Alignas(max_align_t) uint8_t space[];
};

/*
 * Needed only while a packet is decoded; the decoded message needs only the blocks. Must not be moved, because
 * ALLOCATOR points to it.
 */
struct arena {
	ProtobufCAllocator allocator;
	struct arena_block *last;
	size_t block_size; /* minimum size of a further block */
	size_t more, more_max; /* bytes in further blocks, and their limit */
};

/*
 * FIRST is uninitialised and has SIZE bytes of space, a multiple of the largest alignment; the first
 * allocation is at the beginning of that space. An allocation that the last block has no room for gets a further
 * block. It fails if the further blocks have more than MORE_MAX bytes already, or if it is larger than MORE_MAX
 * itself. MORE_MAX 0: there are no further blocks, and arena_free() need not be called.
 */
void arena_init(struct arena *arena, struct arena_block *first, size_t size, size_t more_max);
/* Frees FIRST, which was allocated with malloc(), and the further blocks. Takes NULL. */
void arena_free(struct arena_block *first);
