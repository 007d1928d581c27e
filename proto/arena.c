/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "proto/arena.h"

/* Not inlined: otherwise arena_alloc() would save registers in each call, for a rare case. */
static __attribute__((noinline)) void *take_more(struct arena *arena, size_t size)
{
	struct arena_block *block;
	size_t room = size > arena->block_size ? arena_align(size) : arena->block_size;

	if (size > arena->more_max || arena->more > arena->more_max)
		return NULL;
	block = malloc(sizeof(*block) + room);
	if (!block)
		return NULL;
	*block = (struct arena_block){ .size = room };
	arena->more += room;
	arena->last->next = block;
	arena->last = block;
	return arena_take(arena, size);
}

static void *arena_alloc(void *data, size_t size)
{
	return arena_take(data, size) ?: take_more(data, size);
}

static void arena_keep(void *data, void *pointer)
{
}

void arena_init(struct arena *arena, struct arena_block *first, size_t size, size_t more_max)
{
	*first = (struct arena_block){ .size = size };
	*arena = (struct arena){
		.allocator = { .alloc = arena_alloc, .free = arena_keep, .allocator_data = arena },
		.last = first,
		.block_size = size,
		.more_max = more_max,
	};
}

void arena_free(struct arena_block *first)
{
	while (first) {
		struct arena_block *next = first->next;

		free(first);
		first = next;
	}
}
