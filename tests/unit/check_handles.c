/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "proto/handles.h"
#include "tests/unit/unit.h"

START_TEST(lowest_free_first)
{
	struct handles h = { 0 };
	int objects[20];
	uint32_t n;

	for (uint32_t i = 0; i < 20; i++) {
		ck_assert_int_eq(handles_add(&h, &objects[i], &n), 0);
		ck_assert_uint_eq(n, i + 1);
	}
	handles_remove(&h, 7);
	handles_remove(&h, 3);
	ck_assert_ptr_null(handles_get(&h, 3));
	ck_assert_int_eq(handles_add(&h, &objects[2], &n), 0);
	ck_assert_uint_eq(n, 3);
	ck_assert_int_eq(handles_add(&h, &objects[6], &n), 0);
	ck_assert_uint_eq(n, 7);
	ck_assert_ptr_eq(handles_get(&h, 20), &objects[19]);
	for (uint32_t i = 1; i <= 20; i++)
		handles_remove(&h, i);
	handles_done(&h);
}
END_TEST

START_TEST(no_such_handle)
{
	struct handles h = { 0 };

	ck_assert_ptr_null(handles_get(&h, 0));
	ck_assert_ptr_null(handles_get(&h, 1));
	ck_assert_ptr_null(handles_get(&h, UINT32_MAX));
	handles_done(&h);
}
END_TEST

START_TEST(a_handle_of_the_callers_choice)
{
	struct handles h = { 0 };
	int a, b;
	uint32_t n;

	ck_assert_int_eq(handles_add_at(&h, &a, 100), 0);
	ck_assert_int_eq(handles_add_at(&h, &b, 100), -EEXIST);
	ck_assert_ptr_eq(handles_get(&h, 100), &a);
	ck_assert_int_eq(handles_add_at(&h, &b, 1), 0);
	ck_assert_int_eq(handles_add(&h, &b, &n), 0);
	ck_assert_uint_eq(n, 2);
	ck_assert_uint_eq(h.n_used, 3);
	handles_remove(&h, 100);
	handles_remove(&h, 1);
	handles_remove(&h, 2);
	handles_done(&h);
}
END_TEST

/* What a few objects take does not depend on their numbers, nor on how many there were. */
START_TEST(memory_of_high_handles)
{
	struct handles h = { 0 };
	size_t n_pages = 0;
	uint32_t n;
	int a;

	for (uint32_t i = 0; i < 16384; i++)
		ck_assert_int_eq(handles_add(&h, &a, &n), 0);
	for (uint32_t i = 1; i < 16384; i++)
		handles_remove(&h, i);
	for (size_t i = 0; i < h.n_pages; i++)
		n_pages += h.pages[i] != NULL;
	ck_assert_uint_eq(n_pages, 1);
	ck_assert_uint_le(h.n_pages, 16384 / HANDLES_PAGE);
	ck_assert_uint_eq(handles_next(&h, 1), 16384);
	ck_assert_uint_eq(handles_next(&h, 16384), 16384);
	ck_assert_uint_eq(handles_next(&h, 16385), 0);
	ck_assert_int_eq(handles_add(&h, &a, &n), 0);
	ck_assert_uint_eq(n, 1);
	handles_remove(&h, 1);
	handles_remove(&h, 16384);
	handles_done(&h);
}
END_TEST

UNIT_MAIN("handles", NULL, NULL, lowest_free_first, no_such_handle, a_handle_of_the_callers_choice,
	  memory_of_high_handles)
