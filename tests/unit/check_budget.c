/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rule/enforce.h"
#include "rpc/turns.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"

/* The rules that a decision compares are work, which is charged to the user's budget. */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define N 3 /* clients */

static struct wire_client clients[N];
static struct wire_client *const pointers[N] = { &clients[0], &clients[1], &clients[2] };

/* N_RULES that are compared for each request for OPERATION, and then one that allows everything. */
static char *make_rules(const char *operation, size_t n_rules)
{
	static const char last[] = "allow any\n";
	char *rules = calloc(n_rules * 40 + sizeof(last), 1), *end = rules;

	ck_assert_ptr_nonnull(rules);
	for (size_t i = 0; i < n_rules; i++)
		end += sprintf(end, "allow %s unit \"*x\"\n", operation);
	strcpy(end, last);
	return rules;
}

static void start(size_t n_rules)
{
	char *rules = make_rules("connect", n_rules);

	wire_start(rules);
	free(rules);
	for (unsigned i = 0; i < N; i++) {
		wire_connect(&clients[i]);
		wire_ask(&clients[i], OP(HELLO), 0);
		wire_ask(&clients[i], OP(CREATE_ID), 1);
		ck_assert_int_eq(clients[i].status, 0);
	}
}

/* All clients, which have the same user, send OP at once. Returns how many are answered in the first turn of the loop. */
static unsigned count_answers(int op)
{
	unsigned n = 0, n_later = 0;
	uint8_t buf[PACKET_MAX];

	for (unsigned i = 0; i < N; i++)
		wire_send(&clients[i], buf, wire_make(&clients[i], op, 1, buf), NULL);
	ck_assert_int_gt(sd_event_run(wire.loop, 0), 0);
	wire_receive(pointers, N);
	for (unsigned i = 0; i < N; i++)
		n += clients[i].n_answers;
	wire_run(pointers, N);
	for (unsigned i = 0; i < N; i++)
		n_later += clients[i].n_answers;
	ck_assert_uint_eq(n_later, N);
	return n;
}

static void end(void)
{
	for (unsigned i = 0; i < N; i++)
		wire_close(&clients[i]);
	wire_run(pointers, 0);
	wire_end();
}

START_TEST(few_rules_are_no_work)
{
	start(TURNS_RULES / 2);
	ck_assert_uint_eq(count_answers(OP(RESOLVE_ADDR)), N);
	ck_assert_uint_eq(count_answers(OP(EXPLAIN)), N);
	end();
}
END_TEST

START_TEST(many_rules_are_work)
{
	start(TURNS_BUDGET * TURNS_RULES);
	ck_assert_uint_eq(count_answers(OP(RESOLVE_ADDR)), 1);
	ck_assert_uint_eq(count_answers(OP(EXPLAIN)), 1);
	end();
}
END_TEST

static unsigned count(const struct list *head)
{
	const struct list *l;
	unsigned n = 0;

	list_for_each(l, head)
		n++;
	return n;
}

/* A turn of the loop checks 256 sessions and ids, or one for which as many rules are compared as for these. */
START_TEST(a_reload_is_work)
{
	char *rules = make_rules("session", 256 * TURNS_RULES);

	start(0);
	wire_set_policy(rules);
	free(rules);
	enforce_start(wire.core);
	/* The first session and its id. */
	ck_assert_uint_eq(count(&wire.core->enforcing), N);
	wire_run(pointers, N);
	ck_assert_uint_eq(count(&wire.core->enforcing), 0);
	wire_set_policy("allow any\n");
	enforce_start(wire.core);
	ck_assert_uint_eq(count(&wire.core->enforcing), 0);
	end();
}
END_TEST

UNIT_MAIN("budget", NULL, NULL, few_rules_are_no_work, many_rules_are_work, a_reload_is_work)
