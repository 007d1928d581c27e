/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/arena.h"
#include "proto/rdmabroker.pb-c.h"
#include "tests/unit/unit.h"

#define SPACE 256
#define MORE 1024

static struct arena arena;
static struct arena_block *first;

static void begin(size_t more_max)
{
	first = malloc(sizeof(*first) + SPACE);
	ck_assert_ptr_nonnull(first);
	arena_init(&arena, first, SPACE, more_max);
}

static void tear_down(void)
{
	arena_free(first);
	first = NULL;
}

/* Allocates SIZE bytes and writes to all of them. Returns NULL if the arena refuses. */
static void *allocate(size_t size)
{
	void *ret = arena.allocator.alloc(arena.allocator.allocator_data, size);

	if (ret)
		memset(ret, 0xaa, size);
	return ret;
}

static bool refuses(size_t size)
{
	return !arena.allocator.alloc(arena.allocator.allocator_data, size);
}

static size_t count_blocks(void)
{
	size_t n = 0;

	for (const struct arena_block *block = first; block; block = block->next)
		n++;
	return n;
}

START_TEST(an_arena_without_further_blocks_has_its_first)
{
	uint8_t *a, *b;

	begin(0);
	a = allocate(SPACE / 2 - 1);
	ck_assert_ptr_eq(a, first->space);
	b = allocate(1);
	ck_assert_uint_eq((uintptr_t)b % _Alignof(max_align_t), 0);
	ck_assert_ptr_eq(b, a + SPACE / 2);

	/* A request that does not fit leaves the remaining space for smaller ones. */
	ck_assert(refuses(SPACE / 2));
	ck_assert(refuses(SIZE_MAX));
	ck_assert_ptr_nonnull(allocate(SPACE / 2 - _Alignof(max_align_t)));
	ck_assert_uint_eq(first->used, SPACE);
	ck_assert(refuses(1));
	ck_assert_uint_eq(count_blocks(), 1);
}
END_TEST

START_TEST(a_full_block_is_followed_by_one_as_large)
{
	begin(MORE);
	ck_assert_ptr_nonnull(allocate(SPACE));
	ck_assert_uint_eq(count_blocks(), 1);
	ck_assert_ptr_nonnull(allocate(1));
	ck_assert_ptr_nonnull(allocate(SPACE - _Alignof(max_align_t)));
	ck_assert_uint_eq(count_blocks(), 2);
	ck_assert_uint_eq(first->next->size, SPACE);
}
END_TEST

START_TEST(what_is_larger_gets_a_block_of_its_size)
{
	begin(MORE);
	ck_assert_ptr_nonnull(allocate(SPACE + 1));
	ck_assert_uint_eq(count_blocks(), 2);
	ck_assert_uint_ge(first->next->size, SPACE + 1);
	ck_assert_ptr_eq(arena.last, first->next);
}
END_TEST

START_TEST(further_blocks_have_a_limit)
{
	begin(MORE);
	ck_assert(refuses(MORE + 1));
	ck_assert(refuses(SIZE_MAX));
	ck_assert_uint_eq(count_blocks(), 1);

	/* A block of at most MORE bytes is refused only if the blocks after the first already exceed MORE. */
	ck_assert_ptr_nonnull(allocate(MORE));
	ck_assert_ptr_nonnull(allocate(MORE));
	ck_assert_uint_eq(count_blocks(), 3);
	ck_assert(refuses(1));
	ck_assert_uint_eq(count_blocks(), 3);
}
END_TEST

/* An empty submessage takes two bytes in the packet, but much more memory when it is decoded. */
START_TEST(a_packet_that_needs_more_memory_cannot_be_decoded)
{
	Rdmabroker__ListedSession empty = RDMABROKER__LISTED_SESSION__INIT, *sessions[32];
	Rdmabroker__ListResult list = RDMABROKER__LIST_RESULT__INIT, *decoded;
	uint8_t packed[256];
	size_t len;

	for (size_t i = 0; i < 32; i++)
		sessions[i] = &empty;
	list.n_sessions = 32;
	list.sessions = sessions;
	len = rdmabroker__list_result__pack(&list, packed);
	ck_assert_uint_lt(len, SPACE / 2);

	begin(0);
	ck_assert_ptr_null(rdmabroker__list_result__unpack(&arena.allocator, len, packed));
	tear_down();

	begin(65536);
	decoded = rdmabroker__list_result__unpack(&arena.allocator, len, packed);
	ck_assert_ptr_eq(decoded, first->space);
	ck_assert_uint_eq(decoded->n_sessions, 32);
	ck_assert_uint_gt(count_blocks(), 1);
}
END_TEST

UNIT_MAIN("arena", NULL, tear_down, an_arena_without_further_blocks_has_its_first,
	  a_full_block_is_followed_by_one_as_large, what_is_larger_gets_a_block_of_its_size,
	  further_blocks_have_a_limit, a_packet_that_needs_more_memory_cannot_be_decoded)
