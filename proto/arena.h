/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Memory for one decoded packet, as an allocator of protobuf-c. It is taken from a block that the caller provides
 * and, if that is full, from further ones of malloc(), up to a limit: a field of two bytes can become a message of
 * some hundred bytes. Only all of it together is freed.
 */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block {
	struct arena_block *next; /* NULL: the last */
	size_t size, used; /* bytes of SPACE */
	_Alignas(max_align_t) uint8_t space[];
};

/* Only for decoding; what was decoded needs the blocks alone. Must not be moved. */
struct arena {
	ProtobufCAllocator allocator;
	struct arena_block *last;
	size_t block_size; /* of a further block, at least */
	size_t more, more_max; /* bytes in further blocks */
};

/*
 * FIRST is uninitialised and has SIZE bytes of space, a multiple of the largest alignment; the first allocation is
 * at its beginning. Allocations that need more memory fail once further blocks have more than MORE_MAX bytes, and if
 * they are larger than that themselves. MORE_MAX 0: there are none, and FIRST need not be freed here.
 */
void arena_init(struct arena *arena, struct arena_block *first, size_t size, size_t more_max);
/* Frees FIRST, which came from malloc(), and the further blocks. NULL is allowed. */
void arena_free(struct arena_block *first);
