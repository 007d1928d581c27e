/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/unit.h"
#include "util/account.h"

/* Nobody runs the tests as one of them: the daemon's own user is not limited as others are. */
#define ALICE 3999999001u
#define BOB 3999999002u
#define CAROL 3999999003u

START_TEST(charges_are_given_back)
{
	struct account a;
	struct charge c[3] = { 0 };

	account_init(&a);
	ck_assert_int_eq(account_charge(&a, &c[0], ACCOUNT_IDS, 1, owner_of(ALICE)), 0);
	ck_assert_int_eq(account_charge(&a, &c[1], ACCOUNT_IDS, 1, owner_of(BOB)), 0);
	ck_assert_int_eq(account_charge(&a, &c[2], ACCOUNT_SESSIONS, 1, owner_of(ALICE)), 0);
	ck_assert_uint_eq(a.used[ACCOUNT_IDS], 2);
	for (int i = 0; i < 3; i++)
		charge_done(&c[i]);
	charge_done(&c[0]);
	ck_assert_uint_eq(a.used[ACCOUNT_IDS], 0);
	account_done(&a);
}
END_TEST

START_TEST(a_limit_for_each_user)
{
	struct account a;
	struct charge c[4] = { 0 }, refused = { 0 };

	account_init(&a);
	a.limit_per_user[ACCOUNT_IDS] = 2;
	ck_assert_int_eq(account_charge(&a, &c[0], ACCOUNT_IDS, 1, owner_of(ALICE)), 0);
	ck_assert_int_eq(account_charge(&a, &c[1], ACCOUNT_IDS, 1, owner_of(ALICE)), 0);
	ck_assert_int_eq(account_charge(&a, &refused, ACCOUNT_IDS, 1, owner_of(ALICE)), -EDQUOT);
	charge_done(&refused);
	ck_assert_int_eq(account_charge(&a, &c[2], ACCOUNT_IDS, 1, owner_of(BOB)), 0);
	ck_assert_uint_eq(account_get_used(&a, ACCOUNT_IDS, owner_of(ALICE)), 2);
	ck_assert_uint_eq(account_get_used(&a, ACCOUNT_IDS, owner_of(BOB)), 1);
	ck_assert_uint_eq(account_get_used(&a, ACCOUNT_IDS, owner_of(CAROL)), 0);
	charge_done(&c[0]);
	ck_assert_int_eq(account_charge(&a, &c[3], ACCOUNT_IDS, 1, owner_of(ALICE)), 0);
	for (int i = 0; i < 4; i++)
		charge_done(&c[i]);
	account_done(&a);
}
END_TEST

/* What there is can be less than the limit of one user. */
START_TEST(half_of_what_there_is)
{
	struct account a;
	struct charge c[4] = { 0 };
	struct charge refused = { 0 };

	account_init(&a);
	a.limit_per_user[ACCOUNT_FDS] = 8192;
	a.limit[ACCOUNT_FDS] = 4;
	ck_assert_int_eq(account_charge(&a, &c[0], ACCOUNT_FDS, 2, owner_of(ALICE)), 0);
	ck_assert_int_eq(account_charge(&a, &refused, ACCOUNT_FDS, 1, owner_of(ALICE)), -EDQUOT);
	ck_assert_uint_eq(account_get_limit(&a, ACCOUNT_FDS, owner_of(ALICE)), 2);
	ck_assert_int_eq(account_charge(&a, &c[1], ACCOUNT_FDS, 2, owner_of(BOB)), 0);
	ck_assert_int_eq(account_charge(&a, &refused, ACCOUNT_FDS, 1, owner_of(CAROL)), -EUSERS);
	/* Root is not limited by that. */
	charge_done(&c[1]);
	ck_assert_uint_eq(account_get_limit(&a, ACCOUNT_FDS, owner_of(0)), 8192);
	ck_assert_int_eq(account_charge(&a, &c[2], ACCOUNT_FDS, 2, owner_of(0)), 0);
	charge_done(&c[0]);
	ck_assert_int_eq(account_charge(&a, &c[3], ACCOUNT_FDS, 2, owner_of(0)), 0);
	charge_done(&c[2]);
	charge_done(&c[3]);
	account_done(&a);
}
END_TEST

START_TEST(a_limit_for_all_users)
{
	struct account a;
	struct charge c[2] = { 0 };

	account_init(&a);
	a.limit[ACCOUNT_SESSIONS] = 1;
	ck_assert_int_eq(account_charge(&a, &c[0], ACCOUNT_SESSIONS, 1, owner_of(1)), 0);
	ck_assert_int_eq(account_charge(&a, &c[1], ACCOUNT_SESSIONS, 1, owner_of(2)), -EUSERS);
	charge_done(&c[0]);
	ck_assert_int_eq(account_charge(&a, &c[1], ACCOUNT_SESSIONS, 1, owner_of(2)), 0);
	charge_done(&c[1]);
	account_done(&a);
}
END_TEST

START_TEST(charges_of_any_amount)
{
	struct account a;
	struct charge c = { 0 }, refused = { 0 };

	account_init(&a);
	a.limit_per_user[ACCOUNT_BYTES] = 100;
	ck_assert_int_eq(account_charge(&a, &c, ACCOUNT_BYTES, 60, owner_of(1)), 0);
	ck_assert_int_eq(account_charge(&a, &refused, ACCOUNT_BYTES, 41, owner_of(1)), -EDQUOT);
	ck_assert_int_eq(account_charge(&a, &refused, ACCOUNT_BYTES, 40, owner_of(1)), 0);
	charge_done(&refused);
	/* A lower limit does not affect existing charges. */
	a.limit_per_user[ACCOUNT_BYTES] = 10;
	ck_assert_int_eq(account_charge(&a, &refused, ACCOUNT_BYTES, 1, owner_of(1)), -EDQUOT);
	charge_done(&c);
	ck_assert_uint_eq(a.used[ACCOUNT_BYTES], 0);
	account_done(&a);
}
END_TEST

/* Above his ordinary limit, an owner leaves others a quarter of all, and has no more than half. */
START_TEST(times_as_much)
{
	struct account a;
	struct charge charges[100] = { { 0 } };
	unsigned n = 0;

	account_init(&a);
	a.own = 4711;
	a.limit_per_user[ACCOUNT_IDS] = 10;
	a.limit[ACCOUNT_IDS] = 60;
	while (account_charge_times(&a, &charges[n], ACCOUNT_IDS, 1, owner_of(1), 2) == 0)
		n++;
	ck_assert_uint_eq(n, 20);
	while (account_charge_times(&a, &charges[n], ACCOUNT_IDS, 1, owner_of(1), 4) == 0)
		n++;
	ck_assert_uint_eq(n, 30);
	while (account_charge_times(&a, &charges[n], ACCOUNT_IDS, 1, owner_of(2), 4) == 0)
		n++;
	ck_assert_uint_eq(n, 45);
	ck_assert_int_eq(account_charge(&a, &charges[n], ACCOUNT_IDS, 1, owner_of(2)), -EDQUOT);
	while (account_charge(&a, &charges[n], ACCOUNT_IDS, 1, owner_of(3)) == 0)
		n++;
	ck_assert_uint_eq(n, 55);
	for (unsigned i = 0; i < n; i++)
		charge_done(&charges[i]);
	account_done(&a);
}
END_TEST

UNIT_MAIN("account", NULL, NULL, charges_are_given_back, a_limit_for_each_user,
	  half_of_what_there_is, a_limit_for_all_users, charges_of_any_amount, times_as_much)
