/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/unit.h"
#include "util/keyed.h"

struct thing {
	struct keyed keyed;
	int value;
};

static struct thing *get(struct keyed **table, uint64_t key)
{
	struct thing *thing = keyed_get(table, key, sizeof(*thing));

	ck_assert_ptr_nonnull(thing);
	return thing;
}

START_TEST(one_object_for_a_number)
{
	struct keyed *table = NULL;
	struct thing *one = get(&table, 1), *other = get(&table, UINT64_C(1) << 32);

	ck_assert_ptr_ne(one, other);
	ck_assert_int_eq(one->value, 0);
	ck_assert_ptr_eq(get(&table, 1), one);
	ck_assert_uint_eq(one->keyed.n_refs, 2);
	ck_assert_uint_eq(other->keyed.n_refs, 1);
	ck_assert_ptr_eq(keyed_find(table, 1), one);
	ck_assert_uint_eq(one->keyed.n_refs, 2);
	ck_assert_ptr_null(keyed_find(table, 2));
	ck_assert(!keyed_put(one));
	ck_assert(keyed_put(one));
	ck_assert(keyed_put(other));
	ck_assert_ptr_null(table);
}
END_TEST

START_TEST(a_number_is_used_again)
{
	struct keyed *table = NULL;
	struct thing *thing = get(&table, 7);

	thing->value = 1;
	ck_assert(keyed_put(thing));
	ck_assert_ptr_null(keyed_find(table, 7));
	thing = get(&table, 7);
	ck_assert_int_eq(thing->value, 0);
	ck_assert_uint_eq(thing->keyed.n_refs, 1);
	ck_assert(keyed_put(thing));
}
END_TEST

UNIT_MAIN("keyed", NULL, NULL, one_object_for_a_number, a_number_is_used_again)
