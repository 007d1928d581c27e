/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/unit.h"
#include "util/roster.h"

#define N 1000

static int objects[N];

/* Object I has the number 10 * I. */
static void add(struct roster *roster, unsigned i)
{
	ck_assert_int_eq(roster_add(roster, 10 * i, &objects[i]), 0);
}

START_TEST(in_the_order_of_numbers)
{
	struct roster roster = { 0 };

	ck_assert_ptr_null(roster_from(&roster, 0));
	add(&roster, 3);
	add(&roster, 1);
	add(&roster, 2);
	ck_assert_ptr_eq(roster_from(&roster, 0), &objects[1]);
	ck_assert_ptr_eq(roster_from(&roster, 11), &objects[2]);
	ck_assert_ptr_eq(roster_from(&roster, 30), &objects[3]);
	ck_assert_ptr_null(roster_from(&roster, 31));
	ck_assert_ptr_eq(roster_get(&roster, 20), &objects[2]);
	ck_assert_ptr_null(roster_get(&roster, 21));
	ck_assert_int_eq(roster_add(&roster, 20, &objects[4]), -EEXIST);
	for (unsigned i = 1; i <= 3; i++)
		roster_remove(&roster, 10 * i);
	roster_done(&roster);
}
END_TEST

START_TEST(a_number_is_used_again)
{
	struct roster roster = { 0 };

	for (unsigned i = 0; i < 4; i++)
		add(&roster, i);
	roster_remove(&roster, 10);
	ck_assert_ptr_null(roster_get(&roster, 10));
	ck_assert_ptr_eq(roster_from(&roster, 10), &objects[2]);
	add(&roster, 1);
	ck_assert_ptr_eq(roster_from(&roster, 10), &objects[1]);
	for (unsigned i = 0; i < 4; i++)
		roster_remove(&roster, 10 * i);
	roster_done(&roster);
}
END_TEST

/* Objects come and go at random; an array says what has to be there. */
START_TEST(as_an_array)
{
	struct roster roster = { 0 };
	bool there[N] = { false };

	srand(1);
	for (unsigned round = 0; round < 20 * N; round++) {
		unsigned i = (unsigned)rand() % N, next = i;

		if (there[i])
			roster_remove(&roster, 10 * i);
		else
			add(&roster, i);
		there[i] = !there[i];
		while (next < N && !there[next])
			next++;
		ck_assert_ptr_eq(roster_get(&roster, 10 * i), there[i] ? &objects[i] : NULL);
		ck_assert_ptr_eq(roster_from(&roster, 10 * i), next < N ? &objects[next] : NULL);
	}
	for (unsigned i = 0; i < N; i++)
		if (there[i])
			roster_remove(&roster, 10 * i);
	roster_done(&roster);
}
END_TEST

UNIT_MAIN("roster", NULL, NULL, in_the_order_of_numbers, a_number_is_used_again, as_an_array)
