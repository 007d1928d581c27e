/* SPDX-License-Identifier: BSD-2-Clause */
#include "rpc/arena.h"

static void *arena_alloc(void *data, size_t size)
{
	struct arena *arena = data;
	size_t start = arena->used;

	if (size > sizeof(arena->space) - start)
		return NULL;
	arena->used = (start + size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	return arena->space + start;
}

static void arena_free(void *data, void *pointer)
{
	(void)data;
	(void)pointer;
}

void arena_init(struct arena *arena)
{
	arena->allocator.alloc = arena_alloc;
	arena->allocator.free = arena_free;
	arena->allocator.allocator_data = arena;
	arena->used = 0;
}
