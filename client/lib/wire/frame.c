/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <stdlib.h>

#include "client/lib/wire/frame.h"
#include "proto/arena.h"
#include "proto/codec.h"

/*
 * In bytes. Enough for most events; packets that need more memory get further blocks. With the block's header it is small
 * enough for the cache of each thread in glibc's malloc(), which has chunks of 1032 bytes at most.
 */
#define FIRST_BLOCK 976
/* In bytes: a packet whose further blocks have more than this gets no other block, and is refused. */
#define MORE_MAX (1 << 20)

Rdmabroker__Frame *frame_unpack(const uint8_t *data, size_t len)
{
	struct arena_block *first = malloc(sizeof(*first) + FIRST_BLOCK);
	struct arena arena;
	Rdmabroker__Frame *frame;

	if (!first)
		return NULL;
	arena_init(&arena, first, FIRST_BLOCK, MORE_MAX);
	frame = codec_unpack(&arena, data, len);
	if (!frame) {
		arena_free(first);
		return NULL;
	}
	/* The decoder allocates the frame first. first_block() computes the block's address from the frame's. */
	assert((uint8_t *)frame == first->space);
	return frame;
}

static struct arena_block *first_block(const Rdmabroker__Frame *frame)
{
	return (struct arena_block *)((uint8_t *)frame - offsetof(struct arena_block, space));
}

size_t frame_get_size(const Rdmabroker__Frame *frame)
{
	size_t size = 0;

	for (const struct arena_block *block = first_block(frame); block; block = block->next)
		size += sizeof(*block) + block->size;
	return size;
}

void frame_free(Rdmabroker__Frame *frame)
{
	if (frame)
		arena_free(first_block(frame));
}
