/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "rpc/turns.h"
#include "tests/unit/unit.h"
#include "util/keyed.h"

#define N 500 /* sessions of an owner */

static sd_event *loop;
static struct turns turns;
static struct client {
	struct turn turn;
	unsigned owner, n_served;
} clients[2][N];
static bool in_range; /* each session of the first owner is one of another owner, in one range */
static unsigned work, n_served[2], max_in_a_row, in_a_row, last = 2;

/* Each session always has another request. */
static void serve(struct turn *turn)
{
	struct client *client = container_of(turn, struct client, turn);

	in_a_row = client->owner == last ? in_a_row + work : work;
	max_in_a_row = in_a_row > max_in_a_row ? in_a_row : max_in_a_row;
	last = client->owner;
	client->n_served++;
	n_served[client->owner]++;
	turns_charge(turn, work);
	turns_put_off(turn);
}

static void join(unsigned owner, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		bool is_tenant = in_range && owner == 0;

		clients[owner][i].owner = owner;
		ck_assert_int_eq(
			turns_join(&turns, &clients[owner][i].turn,
				   (struct owner){ .uid = is_tenant ? 100000 + i : 1000 + owner,
						   .range = is_tenant ? 100000 : OWNER_ALONE }),
			0);
	}
}

static void set_up(void)
{
	work = 1;
	ck_assert_int_ge(sd_event_new(&loop), 0);
	ck_assert_int_eq(turns_init(&turns, loop, serve), 0);
}

static void tear_down(void)
{
	for (unsigned owner = 0; owner < 2; owner++)
		for (unsigned i = 0; i < N; i++)
			turns_leave(&clients[owner][i].turn);
	turns_done(&turns);
	sd_event_unref(loop);
}

/* One has 500 sessions that all want something, the other one has two: each owner gets half of the work. */
static void share_work(unsigned of_a_request)
{
	work = of_a_request;
	join(0, N);
	join(1, 2);
	for (unsigned i = 0; i < N; i++)
		turns_put_off(&clients[0][i].turn);
	turns_put_off(&clients[1][0].turn);
	turns_put_off(&clients[1][1].turn);
	while (n_served[0] < 2 * N)
		ck_assert_int_gt(sd_event_run(loop, UINT64_MAX), 0);
	ck_assert_uint_ge(n_served[1], n_served[0] - TURNS_BUDGET);
	/* In one turn each gets what is left of the budget, and then one request more. */
	ck_assert_uint_lt(max_in_a_row, TURNS_BUDGET + of_a_request);
	/* And so do the sessions of one owner. */
	for (unsigned i = 0; i < N; i++)
		ck_assert_uint_le(clients[0][i].n_served - 2, 1);
}

START_TEST(owners_share_the_work)
{
	share_work(1);
}
END_TEST

START_TEST(owners_share_costly_work)
{
	share_work(TURNS_BUDGET - 1);
}
END_TEST

/* Who has not used up his budget does not wait, whatever others have put off. */
START_TEST(a_modest_owner_goes_at_once)
{
	join(0, N);
	join(1, 1);
	ck_assert(turns_may_go(&clients[0][0].turn));
	turns_charge(&clients[0][0].turn, TURNS_BUDGET);
	ck_assert(!turns_may_go(&clients[0][0].turn));
	ck_assert(!turns_may_go(&clients[0][1].turn));
	for (unsigned i = 0; i < N; i++)
		turns_put_off(&clients[0][i].turn);
	ck_assert(turns_may_go(&clients[1][0].turn));
	/* What comes later goes behind what was put off, also in a turn with a new budget. */
	ck_assert_int_gt(sd_event_run(loop, UINT64_MAX), 0);
	ck_assert_uint_eq(n_served[0], TURNS_BUDGET);
	ck_assert(!turns_may_go(&clients[0][0].turn));
}
END_TEST

/* However many uids a container has, they have one budget, and one place in the rotation. */
START_TEST(a_range_is_as_one_owner)
{
	in_range = true;
	share_work(1);
	ck_assert_uint_eq(HASH_COUNT(turns.owners), N + 1);
	turns_charge(&clients[0][0].turn, TURNS_BUDGET);
	ck_assert(!turns_may_go(&clients[0][1].turn));
	ck_assert(turns_may_go(&clients[1][0].turn) || turns_is_put_off(&clients[1][0].turn));
}
END_TEST

/* Who is alone with many of one owner in a range does not wait for all of them. */
START_TEST(owners_of_a_range_take_turns)
{
	struct owner many = { 100000, 100000 }, modest = { 165536, 100000 };
	unsigned n = 0;

	for (unsigned i = 0; i < N; i++) {
		ck_assert_int_eq(turns_join(&turns, &clients[0][i].turn, many), 0);
		turns_put_off(&clients[0][i].turn);
	}
	ck_assert_int_eq(turns_join(&turns, &clients[1][0].turn, modest), 0);
	clients[1][0].owner = 1;
	turns_put_off(&clients[1][0].turn);
	while (n_served[1] == 0 && n++ < N)
		ck_assert_int_gt(sd_event_run(loop, UINT64_MAX), 0);
	ck_assert_uint_le(n, 1);
	ck_assert_uint_lt(n_served[0], TURNS_BUDGET);
	/* Nor does one turn belong to who has put off most. */
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_gt(sd_event_run(loop, UINT64_MAX), 0);
	ck_assert_uint_ge(n_served[1] + TURNS_BUDGET, n_served[0]);
	for (unsigned i = 0; i < N; i++)
		turns_leave(&clients[0][i].turn);
	ck_assert_uint_eq(HASH_COUNT(turns.owners), 1);
	ck_assert_int_gt(sd_event_run(loop, UINT64_MAX), 0);
}
END_TEST

START_TEST(a_single_owner_is_not_put_off)
{
	join(0, 2);
	turns_charge(&clients[0][0].turn, TURNS_BUDGET - 1);
	ck_assert(!turns_is_used_up(&clients[0][0].turn));
	turns_charge(&clients[0][0].turn, 1);
	ck_assert(turns_may_go(&clients[0][1].turn));
	ck_assert(turns_is_used_up(&clients[0][1].turn));
}
END_TEST

START_TEST(who_leaves_has_no_turn)
{
	join(0, 2);
	join(1, 1);
	turns_put_off(&clients[0][0].turn);
	turns_put_off(&clients[0][0].turn);
	turns_put_off(&clients[1][0].turn);
	turns_leave(&clients[1][0].turn);
	turns_leave(&clients[1][0].turn);
	ck_assert_uint_eq(HASH_COUNT(turns.owners), 1);
	ck_assert_int_gt(sd_event_run(loop, UINT64_MAX), 0);
	ck_assert_uint_eq(n_served[1], 0);
	ck_assert_uint_gt(n_served[0], 0);
}
END_TEST

UNIT_MAIN("turns", set_up, tear_down, owners_share_the_work, owners_share_costly_work,
	  a_modest_owner_goes_at_once, a_range_is_as_one_owner, owners_of_a_range_take_turns,
	  a_single_owner_is_not_put_off, who_leaves_has_no_turn)
