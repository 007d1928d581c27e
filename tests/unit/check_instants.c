/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "client/admin.h"
#include "tests/fake/fake.h"
#include "tests/hooks/hooks.h"
#include "tests/unit/manager.h"
#include "tests/unit/succession.h"
#include "tests/unit/unit.h"
#include "util/clock.h"

/* The daemon is killed before each call that it makes, see succession.h. */

static unsigned n_opened; /* sessions */
static unsigned n_events[2][64]; /* of a life, by session and type */

/* Takes events of SESSION until one of the two types about ABOUT. Returns its type; -1: there is none. */
static int await_either(struct rdmabroker *session, struct rdmabroker_id *about,
			enum rdmabroker_event_type one, enum rdmabroker_event_type other)
{
	struct rdmabroker_event *event;

	while (rdmabroker_get_event(session, T, &event) == 0) {
		int type = event->type;
		unsigned *n = &n_events[session == server][type];
		bool found = (event->listen_id ?: event->id) == about &&
			     (event->type == one || event->type == other);

		(*n)++;
		/* A connect that was sent just before the daemon died is sent once more, see repeat.h. */
		ck_assert_msg(*n == 1 || type == RDMABROKER_EVENT_CONNECT_REQUEST, "%s came twice",
			      rdmabroker_event_str(event->type));
		if (found && type == RDMABROKER_EVENT_CONNECT_REQUEST)
			accepted = event->id;
		rdmabroker_free_event(event);
		if (found)
			return type;
	}
	return -1;
}

/* ACCEPTED becomes the next request, if there is one. */
static bool is_requested_again(void)
{
	struct rdmabroker_event *event;
	bool found = false;

	run_all();
	/* The first request has got an event of its end. */
	while (!found && rdmabroker_get_event(server, 0, &event) == 0) {
		found = event->type == RDMABROKER_EVENT_CONNECT_REQUEST;
		if (found) {
			rdmabroker_destroy_id(accepted);
			accepted = event->id;
		}
		rdmabroker_free_event(event);
	}
	return found;
}

enum life {
	LIFE_REFUSED, /* a call has failed */
	LIFE_FAILED, /* the connection was not made, and an event has said so or has to */
	LIFE_TOLD, /* the connection was not made, and an event has said so */
	LIFE_WHOLE, /* the connection was made, and both ends have learnt of its end */
	LIFE_LOST, /* an end has waited in vain */
};

/* 0: all connections have the same QP numbers, so a connect waits until the number's time wait is over. */
static uint32_t new_numbers;

static uint32_t number_of(uint32_t qpn)
{
	return new_numbers > 0 ? new_numbers++ : qpn;
}

static bool connection_is_made(enum life *ret)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = number_of(17) };

	*ret = LIFE_REFUSED;
	if (rdmabroker_resolve_wait(id, NULL, addr(PORT), T) < 0 ||
	    rdmabroker_connect(id, &param) < 0)
		return false;
	*ret = LIFE_FAILED;
	/* The daemon can have died before the request reached the listener, or before it was told. */
	if (await_either(server, listener, RDMABROKER_EVENT_CONNECT_REQUEST,
			 RDMABROKER_EVENT_CONNECT_REQUEST) < 0)
		return false;
	param.qp_num = number_of(18);
	/* The first of two requests cannot be accepted if the process that has sent it died before it could note so. */
	if (rdmabroker_accept(accepted, &param) < 0 &&
	    (!is_requested_again() || rdmabroker_accept(accepted, &param) < 0))
		return false;
	*ret = LIFE_TOLD;
	if (await_either(client, id, RDMABROKER_EVENT_CONNECT_RESPONSE,
			 RDMABROKER_EVENT_CONNECT_ERROR) != RDMABROKER_EVENT_CONNECT_RESPONSE)
		return false;
	*ret = LIFE_FAILED;
	if (rdmabroker_establish(id) < 0)
		return false;
	return await_either(server, accepted, RDMABROKER_EVENT_ESTABLISHED,
			    RDMABROKER_EVENT_CONNECT_ERROR) == RDMABROKER_EVENT_ESTABLISHED;
}

/* The life of a connection, from id to end. */
static enum life live(void)
{
	enum life ret;

	accepted = NULL;
	memset(n_events, 0, sizeof(n_events));
	id = new_id(client);
	if (!connection_is_made(&ret)) {
		/* The client has to learn that nothing comes of it. */
		if (ret == LIFE_FAILED && await_either(client, id, RDMABROKER_EVENT_CONNECT_ERROR,
						       RDMABROKER_EVENT_REJECTED) < 0)
			ret = LIFE_LOST;
		return ret;
	}
	if (rdmabroker_disconnect(id) < 0)
		return LIFE_LOST;
	if (await_either(client, id, RDMABROKER_EVENT_DISCONNECTED, RDMABROKER_EVENT_DISCONNECTED) <
		    0 ||
	    await_either(server, accepted, RDMABROKER_EVENT_DISCONNECTED,
			 RDMABROKER_EVENT_DISCONNECTED) < 0)
		return LIFE_LOST;
	expect_nothing(client);
	expect_nothing(server);
	return LIFE_WHOLE;
}

/*
 * The daemon dies before each of the calls that it makes for a connection: of the system, of malloc(), of the fabric.
 * Whatever the time, the sessions go on, the client learns what became of its connection, another connection can be
 * made, and nothing is left.
 */
static void die_at_every_instant(void)
{
	static const char *const names[] = { "refused", "failed", "told", "whole", "lost" };
	unsigned n_lives[5] = { 0 };
	struct rdmabroker_status *status;
	bool was_killed = true;
	enum life life;

	allow_leaks();
	start_listening();
	for (unsigned n = 1; was_killed; n++) {
		hooks_kill_at(n, on_kill);
		life = live();
		n_lives[life]++;
		ck_assert_msg(life != LIFE_LOST && life != LIFE_REFUSED,
			      "the daemon dies at call %u: %s", n, names[life]);
		was_killed = hooks_left_until_kill() == 0;
		hooks_kill_at(0, NULL);
		rdmabroker_destroy_id(id);
		rdmabroker_destroy_id(accepted);
		id = accepted = NULL;
		hooks_run(hooks_get_loop());
		status = get_status();
		ck_assert_msg(status->n_ids == 1 && status->n_sessions == n_sessions() &&
				      status->n_listeners == 1 && status->n_connections == 0,
			      "%u ids, %u sessions, %u listeners, %u connections are left if the "
			      "daemon dies at call %u",
			      status->n_ids, status->n_sessions, status->n_listeners,
			      status->n_connections, n);
		rdmabroker_free(status);
		ck_assert_int_eq(live(), LIFE_WHOLE);
		rdmabroker_destroy_id(id);
		rdmabroker_destroy_id(accepted);
	}
	for (unsigned i = 0; i < 5; i++)
		printf("    %u %s\n", n_lives[i], names[i]);
}

START_TEST(every_instant)
{
	new_numbers = 0;
	die_at_every_instant();
}
END_TEST

START_TEST(every_instant_without_a_time_wait)
{
	new_numbers = 100;
	die_at_every_instant();
}
END_TEST

static void expect_idle(unsigned n)
{
	struct rdmabroker_status *status;

	hooks_run(hooks_get_loop());
	expect_nothing(client);
	expect_nothing(server);
	status = get_status();
	ck_assert_msg(status->n_ids == 0 && status->n_sessions == n_sessions(),
		      "%u ids, %u sessions are left if the daemon dies at call %u", status->n_ids,
		      status->n_sessions, n);
	rdmabroker_free(status);
}

/* Lives LIFE, whose calls all have to succeed, with a kill at each instant. */
static void survive(void (*life)(void))
{
	bool was_killed = true;

	allow_leaks();
	for (unsigned n = 1; was_killed; n++) {
		hooks_kill_at(n, on_kill);
		life();
		was_killed = hooks_left_until_kill() == 0;
		hooks_kill_at(0, NULL);
		expect_idle(n);
	}
}

static void be_listener(void)
{
	int value;

	id = new_id(client);
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 32), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(7000)), 0);
	ck_assert_int_eq(rdmabroker_get_local_port(id), 7000);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), 0);
	ck_assert_int_eq(value, 32);
	ck_assert_int_eq(rdmabroker_listen(id, 8), 0);
	rdmabroker_destroy_id(id);
}

START_TEST(every_instant_of_a_listener)
{
	survive(be_listener);
}
END_TEST

/*
 * A program opens a session and uses it. If the daemon dies before the session is in the ledger, the kernel closes its
 * socket, and the program is told. Here the socket stays open, so the program waits in vain.
 */
static void be_newcomer(void)
{
	struct rdmabroker_options options = { .size = sizeof(options), .call_timeout_ms = 500 };
	uint64_t end = clock_ms() + options.call_timeout_ms;
	struct rdmabroker *newcomer;
	int r = rdmabroker_open(&options, &newcomer);

	/* If the next process ends the session, the library opens another one, unless there is no time left. */
	if (r == -ETIMEDOUT || (r == -ECONNRESET && clock_ms() >= end))
		return;
	ck_assert_msg(r == 0, "%s", rdmabroker_last_failure()->text);
	n_opened++;
	id = new_id(newcomer);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(7000)), 0);
	rdmabroker_destroy_id(id);
	rdmabroker_close(newcomer);
}

START_TEST(every_instant_of_a_session)
{
	n_opened = 0;
	survive(be_newcomer);
	ck_assert_uint_gt(n_opened, 10);
}
END_TEST

/* The same with sessions whose replies come by another session's socket, see Hello.replies_to. */
/* Connect and accept are set aside while their QPs are looked up. */
START_TEST(every_instant_quiet)
{
	be_quiet();
	new_numbers = 0;
	die_at_every_instant();
}
END_TEST

START_TEST(every_instant_apart)
{
	be_apart();
	new_numbers = 0;
	die_at_every_instant();
}
END_TEST

START_TEST(every_instant_of_a_listener_apart)
{
	be_apart();
	survive(be_listener);
}
END_TEST

static void be_member(void)
{
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xefc00001) };
	struct sockaddr *any = (struct sockaddr *)&group;

	ck_assert_int_eq(rdmabroker_create_id(client, RDMABROKER_PS_UDP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(7000)), 0);
	ck_assert_int_eq(rdmabroker_join_multicast(id, any, RDMABROKER_JOIN_FULL_MEMBER, NULL), 0);
	expect(client, RDMABROKER_EVENT_MULTICAST_JOIN, id);
	ck_assert_int_eq(rdmabroker_leave_multicast(id, any), 0);
	rdmabroker_destroy_id(id);
}

START_TEST(every_instant_of_a_member_of_a_group)
{
	survive(be_member);
}
END_TEST

/* LISTENER's program answers each request that has come. A connect that is sent once more is a second one. */
static void answer_all(void (*answer)(struct rdmabroker_id *request))
{
	struct rdmabroker_event *event;

	run_all();
	while (rdmabroker_get_event(server, 0, &event) == 0) {
		if (event->type == RDMABROKER_EVENT_CONNECT_REQUEST)
			answer(event->id);
		rdmabroker_free_event(event);
		run_all();
	}
}

static void reject(struct rdmabroker_id *request)
{
	rdmabroker_reject(request, NULL, 0);
	rdmabroker_destroy_id(request);
}

static void be_rejected(void)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

	memset(n_events, 0, sizeof(n_events));
	start_listening();
	id = new_id(client);
	resolve(id);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	answer_all(reject);
	ck_assert_int_ge(await_either(client, id, RDMABROKER_EVENT_REJECTED,
				      RDMABROKER_EVENT_CONNECT_ERROR),
			 0);
	rdmabroker_destroy_id(id);
	answer_all(reject);
	rdmabroker_destroy_id(listener);
}

START_TEST(every_instant_of_a_member_of_a_group_apart)
{
	be_apart();
	survive(be_member);
}
END_TEST

START_TEST(every_instant_of_a_reject)
{
	survive(be_rejected);
}
END_TEST

static void accept_lookup(struct rdmabroker_id *request)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 18 };

	rdmabroker_accept(request, &param);
	rdmabroker_destroy_id(request);
}

/* A datagram id looks up the QP number of a service. */
static void look_up(void)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 18 };
	struct rdmabroker_event *event;

	memset(n_events, 0, sizeof(n_events));
	ck_assert_int_eq(rdmabroker_create_id(server, RDMABROKER_PS_UDP, NULL, &listener), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(listener, addr(PORT)), 0);
	ck_assert_int_eq(rdmabroker_listen(listener, 8), 0);
	ck_assert_int_eq(rdmabroker_create_id(client, RDMABROKER_PS_UDP, NULL, &id), 0);
	resolve(id);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	answer_all(accept_lookup);
	/* Exactly one of the outcomes. */
	ck_assert_int_eq(rdmabroker_get_event(client, T, &event), 0);
	ck_assert(event->type == RDMABROKER_EVENT_ESTABLISHED ||
		  event->type == RDMABROKER_EVENT_REJECTED ||
		  event->type == RDMABROKER_EVENT_UNREACHABLE ||
		  event->type == RDMABROKER_EVENT_CONNECT_ERROR);
	rdmabroker_free_event(event);
	rdmabroker_destroy_id(id);
	answer_all(accept_lookup);
	rdmabroker_destroy_id(listener);
}

START_TEST(every_instant_of_a_look_up)
{
	survive(look_up);
}
END_TEST

/* Starts a broker, which dies before its N-th call, and then another one. Returns whether the first one died. */
static bool start_twice(unsigned n)
{
	if (setjmp(killed) == 0) {
		hooks_kill_at(n, on_kill);
		start_broker();
		hooks_kill_at(0, NULL);
		return false;
	}
	start_broker();
	return true;
}

static void die_while_taking_over(void)
{
	struct rdmabroker_status *status;
	bool was_killed = true;

	allow_leaks();
	start_listening();
	connect_ids(17);
	for (unsigned n = 1; was_killed; n++) {
		kill_broker();
		was_killed = start_twice(n);
		expect_nothing(client);
		expect_nothing(server);
		status = get_status();
		ck_assert_msg(status->n_ids == 3 && status->n_sessions == n_sessions() &&
				      status->n_listeners == 1 && status->n_connections == 2,
			      "%u ids, %u sessions, %u listeners, %u connections are left if the "
			      "daemon dies at call %u of a take-over",
			      status->n_ids, status->n_sessions, status->n_listeners,
			      status->n_connections, n);
		rdmabroker_free(status);
	}
	end_connection();
	connect_ids(19);
	end_connection();
}

START_TEST(every_instant_of_a_take_over)
{
	die_while_taking_over();
}
END_TEST

START_TEST(every_instant_of_a_take_over_apart)
{
	be_apart();
	die_while_taking_over();
}
END_TEST

UNIT_MAIN("instants", succession_set_up, succession_tear_down, every_instant,
	  every_instant_without_a_time_wait, every_instant_of_a_listener,
	  every_instant_of_a_session, every_instant_of_a_member_of_a_group,
	  every_instant_of_a_reject, every_instant_of_a_look_up, every_instant_of_a_take_over,
	  every_instant_quiet, every_instant_apart, every_instant_of_a_listener_apart,
	  every_instant_of_a_member_of_a_group_apart, every_instant_of_a_take_over_apart)
