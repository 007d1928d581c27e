/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/object/core.h"
#include "core/object/table.h"
#include "core/rule/admin.h"
#include "core/rule/enforce.h"
#include "core/rule/judge.h"
#include "core/verbs/group.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"

/* One id can have as many multicast groups as its user may have ids. No turn of the loop handles all. */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define N 1500 /* groups */
#define MANY 15000
#define SLICE 256 /* the most groups that one turn of the loop may leave or decide about */

static struct wire_client a, b;
static struct wire_client *const both[] = { &a, &b };

static struct id *find_id(void)
{
	struct failure failure;
	struct id *id;

	ck_assert_int_eq(table_find(a.session, 1, &id, &failure), 0);
	return id;
}

static const struct sockaddr *group(unsigned i)
{
	static struct sockaddr_in addr;

	addr = (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(0xe1000000u + i) };
	return (const struct sockaddr *)&addr;
}

static void join(unsigned n)
{
	struct failure failure;

	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(group_join(find_id(), group(i), 1, &failure), 0);
		if (i % 100 == 0)
			wire_run(both, 2);
	}
	wire_run(both, 2);
}

/* A has an id with N_GROUPS. */
static void start(const char *rules, unsigned n_groups)
{
	wire_start(rules);
	wire.core->account.limit_per_user[ACCOUNT_IDS] = MANY + 100;
	wire.core->account.limit[ACCOUNT_IDS] = MANY + 100;
	for (unsigned i = 0; i < 2; i++) {
		wire_connect(both[i]);
		wire_ask(both[i], OP(HELLO), 0);
		wire_ask(both[i], OP(CREATE_ID), 1);
		wire_ask(both[i], OP(BIND_ADDR), 1);
		ck_assert_int_eq(both[i]->status, 0);
	}
	join(n_groups);
}

static void end(void)
{
	for (unsigned i = 0; i < 2; i++)
		if (both[i]->sock >= 0)
			wire_close(both[i]);
	wire_run(both, 0);
	wire_end();
}

static unsigned n_charged(void)
{
	return (unsigned)wire.core->account.used[ACCOUNT_IDS];
}

/* Runs the loop until LEFT ids and groups are left. Each turn ends SLICE at most, and others are served meanwhile. */
static void end_in_slices(unsigned left)
{
	uint8_t buf[PACKET_MAX];
	unsigned n_turns = 0;

	wire_send(&b, buf, wire_make(&b, OP(RESOLVE_ADDR), 1, buf), NULL);
	while (n_charged() > left) {
		unsigned before = n_charged();

		ck_assert_int_gt(sd_event_run(wire.loop, UINT64_MAX), 0);
		ck_assert_uint_le(before - n_charged(), SLICE);
		wire_receive(both, 2);
		ck_assert_msg(n_turns++ < 10 || b.n_answers == 1, "the other client waits");
	}
	ck_assert_uint_gt(n_turns, N / SLICE);
	wire_run(both, 2);
}

START_TEST(an_id_is_destroyed)
{
	uint8_t buf[PACKET_MAX];

	start("allow any\n", N);
	wire_send(&a, buf, wire_make(&a, OP(DESTROY_ID), 1, buf), NULL);
	end_in_slices(1);
	ck_assert_uint_eq(a.n_answers, 1);
	ck_assert_int_eq(a.status, 0);
	end();
}
END_TEST

START_TEST(a_session_ends)
{
	start("allow any\n", N);
	wire_close(&a);
	end_in_slices(1);
	end();
}
END_TEST

/* And it ends while its request to destroy the id is carried out. */
START_TEST(a_session_ends_meanwhile)
{
	uint8_t buf[PACKET_MAX];

	start("allow any\n", N);
	wire_send(&a, buf, wire_make(&a, OP(DESTROY_ID), 1, buf), NULL);
	ck_assert_int_gt(sd_event_run(wire.loop, 0), 0);
	ck_assert_uint_gt(n_charged(), N / 2);
	wire_close(&a);
	end_in_slices(1);
	end();
}
END_TEST

static void enforce(const char *rules)
{
	unsigned before = n_charged();

	wire_set_policy(rules);
	enforce_start(wire.core);
	ck_assert_uint_le(before - n_charged(), SLICE);
}

START_TEST(groups_that_are_not_allowed)
{
	start("allow any\n", N);
	enforce("reject join local 10.9.0.1\nallow any\n");
	ck_assert_uint_gt(n_charged(), N / 2);
	end_in_slices(2);
	/* The id goes on, and is checked with the groups that it joins then. */
	wire_set_policy("allow any\n");
	join(3);
	enforce("reject join peer 225.0.0.1\nallow any\n");
	wire_run(both, 2);
	ck_assert_uint_eq(n_charged(), 4);
	end();
}
END_TEST

START_TEST(a_listener_that_is_not_allowed)
{
	start("allow any\n", N);
	wire_ask(&a, OP(LISTEN), 1);
	ck_assert_int_eq(find_id()->state, ID_LISTENING);
	enforce("reject listen\nallow any\n");
	ck_assert_uint_gt(n_charged(), N / 2);
	end_in_slices(2);
	ck_assert_int_eq(find_id()->state, ID_REVOKED);
	end();
}
END_TEST

/* What a client leaves and destroys while a new policy is being enforced. */
START_TEST(groups_that_end_during_enforcement)
{
	struct failure failure;

	start("allow any\n", N);
	enforce("allow any\n");
	/* The next one that is to be checked, and those around it. */
	for (unsigned i = SLICE - 10; i < SLICE + 10; i++)
		ck_assert_int_eq(group_leave(find_id(), group(i), &failure), 0);
	ck_assert_int_gt(sd_event_run(wire.loop, UINT64_MAX), 0);
	wire_ask(&a, OP(DESTROY_ID), 1);
	ck_assert_int_eq(a.status, 0);
	ck_assert(list_is_empty(&wire.core->enforcing));
	end();
}
END_TEST

START_TEST(an_admin_ends_an_id)
{
	struct failure failure;
	int r;

	start("allow any\n", N);
	/* Nobody repeats this request, which the test makes in B's name. */
	for (r = -EINPROGRESS; r == -EINPROGRESS;) {
		unsigned before = n_charged();

		r = admin_kick_id(b.session, a.session->number, 1, &failure);
		ck_assert_uint_le(before - n_charged(), SLICE);
	}
	ck_assert_int_eq(r, 0);
	ck_assert_uint_eq(n_charged(), 2);
	ck_assert_int_eq(find_id()->state, ID_REVOKED);
	end();
}
END_TEST

/* A dry run is one request for many ids, so it does not decide about all groups of one. */
START_TEST(a_dry_run_is_bounded)
{
	struct failure why;

	start("allow any\n", 1024);
	ck_assert(judge_all_of_id(find_id(), wire.core->policy, &why));
	ck_assert_int_eq(group_join(find_id(), group(1024), 1, &why), 0);
	ck_assert(!judge_all_of_id(find_id(), wire.core->policy, &why));
	ck_assert_ptr_nonnull(strstr(why.text, "more than 1024 multicast groups"));
	end();
}
END_TEST

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* The least processor time of a look-up, of many: what else the machine does only adds to it. */
static uint64_t look_up_ns(void)
{
	struct failure failure;
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < 200; i++) {
		uint64_t begin = cpu_ns(), ns;

		ck_assert_int_eq(group_leave(find_id(), group(MANY + i), &failure),
				 STATUS_BAD_STATE);
		ck_assert_int_eq(failure.error, EADDRNOTAVAIL);
		ns = cpu_ns() - begin;
		least = ns < least ? ns : least;
	}
	return least;
}

START_TEST(a_group_is_looked_up)
{
	struct failure failure;
	uint64_t few, many;

	start("allow any\n", 1);
	few = look_up_ns();
	for (unsigned i = 1; i < MANY; i++) {
		ck_assert_int_eq(group_join(find_id(), group(i), 1, &failure), 0);
		if (i % 100 == 0)
			wire_run(both, 2);
	}
	many = look_up_ns();
	fprintf(stderr, "A look-up takes %llu ns among 1 group, %llu ns among %u.\n",
		(unsigned long long)few, (unsigned long long)many, MANY);
	ck_assert_uint_lt(many, 5 * few + 5000);
	ck_assert_int_eq(group_join(find_id(), group(MANY / 2), 1, &failure), STATUS_BAD_STATE);
	ck_assert_int_eq(failure.error, EEXIST);
	for (unsigned i = 0; i < MANY; i += 1000)
		ck_assert_int_eq(group_leave(find_id(), group(i), &failure), 0);
	ck_assert_int_eq(group_leave(find_id(), group(0), &failure), STATUS_BAD_STATE);
	end();
}
END_TEST

UNIT_MAIN("groups", NULL, NULL, an_id_is_destroyed, a_session_ends, a_session_ends_meanwhile,
	  groups_that_are_not_allowed, a_listener_that_is_not_allowed,
	  groups_that_end_during_enforcement, an_admin_ends_an_id, a_dry_run_is_bounded,
	  a_group_is_looked_up)
