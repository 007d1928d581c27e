/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <stdlib.h>

#include "client/lib/wire/frame.h"

struct block {
	struct block *next;
	size_t size, used;
	_Alignas(max_align_t) uint8_t space[];
};

/* Enough for an event; packets that need more memory get further blocks. */
#define FIRST_BLOCK 4096
/* Limits the memory for one packet: a field of two bytes can become a message of some hundred bytes. */
#define BLOCKS_MAX (1 << 20)

static struct block *block_new(size_t size)
{
	struct block *block = malloc(sizeof(*block) + size);

	if (block)
		*block = (struct block){ .size = size };
	return block;
}

struct blocks {
	struct block *first, *last;
	size_t total;
};

static void *blocks_alloc(void *data, size_t size)
{
	struct blocks *blocks = data;
	struct block *block = blocks->last;
	void *ret;

	size = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	if (size > block->size - block->used) {
		size_t room = size > FIRST_BLOCK ? size : FIRST_BLOCK;

		if (size > BLOCKS_MAX || blocks->total > BLOCKS_MAX)
			return NULL;
		block = block_new(room);
		if (!block)
			return NULL;
		blocks->total += room;
		blocks->last->next = block;
		blocks->last = block;
	}
	ret = block->space + block->used;
	block->used += size;
	return ret;
}

static void blocks_keep(void *data, void *pointer)
{
	(void)data;
	(void)pointer;
}

static void blocks_free(struct block *block)
{
	while (block) {
		struct block *next = block->next;

		free(block);
		block = next;
	}
}

Rdmabroker__Frame *frame_unpack(const uint8_t *data, size_t len)
{
	struct blocks blocks = { 0 };
	ProtobufCAllocator allocator = {
		.alloc = blocks_alloc,
		.free = blocks_keep,
		.allocator_data = &blocks,
	};
	Rdmabroker__Frame *frame;

	blocks.first = blocks.last = block_new(FIRST_BLOCK);
	if (!blocks.first)
		return NULL;
	frame = rdmabroker__frame__unpack(&allocator, len, data);
	if (!frame) {
		blocks_free(blocks.first);
		return NULL;
	}
	/* The frame is allocated first, so that first_block() finds the blocks by its address. */
	assert((uint8_t *)frame == blocks.first->space);
	return frame;
}

static struct block *first_block(const Rdmabroker__Frame *frame)
{
	return (struct block *)((uint8_t *)frame - offsetof(struct block, space));
}

size_t frame_get_size(const Rdmabroker__Frame *frame)
{
	size_t size = 0;

	for (const struct block *block = first_block(frame); block; block = block->next)
		size += sizeof(*block) + block->size;
	return size;
}

void frame_free(Rdmabroker__Frame *frame)
{
	if (frame)
		blocks_free(first_block(frame));
}
