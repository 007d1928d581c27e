/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "rpc/peer.h"
#include "rpc/turns.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"

/*
 * Clients that make the daemon queue packets, and do not read them: what such packets take is charged, and they are sent
 * and freed in slices.
 */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define N 20 /* clients whose queues are filled */
#define QUEUED_MAX 65536 /* QueuedBytesPerSession= of wire_start() */
#define PACKET_COST_MIN 200 /* what the shortest packet takes, at least */

static struct wire_client replies, clients[N];

static void set_up(void)
{
	wire_start("allow any\n");
	wire_greet(&replies, 0);
	for (unsigned i = 0; i < N; i++)
		wire_greet(&clients[i], session_get_number(replies.session));
}

static void tear_down(void)
{
	wire_close(&replies);
	for (unsigned i = 0; i < N; i++)
		if (clients[i].sock >= 0)
			wire_close(&clients[i]);
	wire_end();
}

static const struct peer *peer_of(const struct wire_client *client)
{
	return session_get_userdata(client->session);
}

static unsigned count_queued(const struct wire_client *client)
{
	const struct list *l;
	unsigned n = 0;

	list_for_each(l, &peer_of(client)->outbox.packets)
		n++;
	return n;
}

static void run_daemon(void)
{
	wire_run(NULL, 0);
}

/* Sends the request N_REQUESTS times. False: the daemon does not read any more. */
static bool send_many(struct wire_client *client, Rdmabroker__Request *request, unsigned n_requests)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	uint8_t buf[PACKET_MAX];

	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	for (unsigned i = 0; i < n_requests; i++) {
		request->serial = ++client->serial;
		if (packet_send(client->sock, buf, rdmabroker__frame__pack(&frame, buf), NULL, 0) <
		    0)
			return false;
		if (i % 16 == 15)
			run_daemon();
	}
	run_daemon();
	return true;
}

/* The shortest request with the shortest reply. APART: the reply goes to REPLIES. */
static bool request_nothing(struct wire_client *client, bool apart, unsigned n_requests)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Goodbye goodbye = RDMABROKER__GOODBYE__INIT;

	request.apart = apart;
	request.op_case = OP(GOODBYE);
	request.goodbye = &goodbye;
	return send_many(client, &request, n_requests);
}

/* Fills CLIENT's socket and then its queue, until only little room is left. */
static void fill(struct wire_client *client)
{
	while (peer_of(client)->outbox.bytes < QUEUED_MAX * 9 / 10)
		ck_assert(request_nothing(client, /* apart= */ false, 1));
}

/* Replies to its own socket are charged with what they take. The client is dropped before they take more than its limit. */
START_TEST(short_packets_are_charged_as_objects)
{
	unsigned n = 0;

	fill(&clients[0]);
	n = count_queued(&clients[0]);
	ck_assert_uint_gt(n, 0);
	ck_assert_uint_le(n, QUEUED_MAX / PACKET_COST_MIN);
	ck_assert_uint_ge(account_get_used(&wire.core->account, ACCOUNT_BYTES,
					   session_get_owner(clients[0].session)),
			  (uint64_t)n * PACKET_COST_MIN);
}
END_TEST

/* A client that requests to be woken and does not read has one such packet in its queue. */
START_TEST(one_woken_waits)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Wake wake = RDMABROKER__WAKE__INIT;
	uint8_t buf[PACKET_MAX];
	unsigned n_before;
	size_t n_fds;

	fill(&clients[0]);
	n_before = count_queued(&clients[0]);
	request.quiet = request.apart = true;
	request.op_case = OP(WAKE);
	request.wake = &wake;
	ck_assert(send_many(&clients[0], &request, 1000));
	ck_assert_uint_eq(count_queued(&clients[0]), n_before + 1);
	/* When it was received, the next one can be requested. */
	while (count_queued(&clients[0]) > 0) {
		while (packet_recv(clients[0].sock, buf, NULL, 0, &n_fds) > 0)
			;
		run_daemon();
	}
	while (packet_recv(clients[0].sock, buf, NULL, 0, &n_fds) > 0)
		;
	ck_assert(send_many(&clients[0], &request, 1));
	ck_assert_int_eq(packet_recv(clients[0].sock, buf, NULL, 0, &n_fds), 2);
}
END_TEST

/* While the replies are not read where they go to, nothing is read of who gets them there. Then all are answered. */
START_TEST(replies_by_another_socket)
{
	unsigned n_sent = 0;

	for (unsigned i = 0; i < N; i++)
		for (unsigned k = 0; k < 400 && request_nothing(&clients[i], /* apart= */ true, 1);
		     k++)
			n_sent++;
	ck_assert_uint_gt(count_queued(&replies), 0);
	ck_assert_uint_le(count_queued(&replies), N);
	for (unsigned n = 0; n < n_sent;) {
		uint8_t buf[PACKET_MAX];
		size_t n_fds;

		if (packet_recv(replies.sock, buf, NULL, 0, &n_fds) > 0)
			n++;
		else
			ck_assert_msg(sd_event_run(wire.loop, PATIENCE_MS * 1000ULL) > 0,
				      "%u of %u requests were answered", n, n_sent);
	}
	run_daemon();
	ck_assert_uint_eq(count_queued(&replies), 0);
	ck_assert(request_nothing(&clients[0], /* apart= */ true, 1));
}
END_TEST

/* The session to which the replies go ends while its clients are not read: they end, too. */
START_TEST(replies_to_a_session_that_ends)
{
	for (unsigned k = 0; k < 400 && request_nothing(&clients[0], /* apart= */ true, 1); k++)
		;
	ck_assert_uint_gt(count_queued(&replies), 0);
	ck_assert(request_nothing(&clients[1], /* apart= */ true, 1));
	wire_close(&replies);
	run_daemon();
	ck_assert_uint_eq(wire.core->n_sessions, N - 2);
}
END_TEST

/* Events that are not read do not keep a program from making requests whose replies it reads. */
START_TEST(requests_with_unread_events)
{
	fill(&clients[0]);
	for (int i = 0; i < 100; i++) {
		uint8_t buf[PACKET_MAX];
		size_t n_fds;

		ck_assert(request_nothing(&clients[0], /* apart= */ true, 1));
		ck_assert_int_gt(packet_recv(replies.sock, buf, NULL, 0, &n_fds), 0);
	}
}
END_TEST

static unsigned count_all(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < N; i++)
		n += count_queued(&clients[i]);
	return n;
}

static uint64_t get_used(void)
{
	return wire.core->account.used[ACCOUNT_BYTES];
}

/*
 * All queues are filled, and then read. In one turn of the loop the daemon sends no more than the budget of their user
 * allows.
 */
START_TEST(queues_are_sent_in_slices)
{
	unsigned most = 0, left;

	for (unsigned i = 0; i < N; i++)
		fill(&clients[i]);
	while ((left = count_all()) > 0) {
		unsigned before = left;

		for (unsigned i = 0; i < N; i++) {
			uint8_t buf[PACKET_MAX];
			size_t n_fds;

			while (packet_recv(clients[i].sock, buf, NULL, 0, &n_fds) > 0)
				;
		}
		ck_assert_int_gt(sd_event_run(wire.loop, PATIENCE_MS * 1000ULL), 0);
		left = count_all();
		if (before - left > most)
			most = before - left;
	}
	ck_assert_uint_gt(most, 0);
	ck_assert_uint_le(most, 2 * 4 * TURNS_BUDGET);
}
END_TEST

/* The same when all sessions end. */
START_TEST(queues_are_freed_in_slices)
{
	uint64_t most = 0, left;

	for (unsigned i = 0; i < N; i++)
		fill(&clients[i]);
	for (unsigned i = 0; i < N; i++)
		wire_close(&clients[i]);
	while ((left = get_used()) > 0) {
		uint64_t before = left;

		ck_assert_int_gt(sd_event_run(wire.loop, PATIENCE_MS * 1000ULL), 0);
		left = get_used();
		if (before - left > most)
			most = before - left;
	}
	ck_assert_uint_le(most, QUEUED_MAX);
	run_daemon();
	ck_assert_uint_eq(wire.core->n_sessions, 1);
}
END_TEST

UNIT_MAIN("queued", set_up, tear_down, short_packets_are_charged_as_objects, one_woken_waits,
	  replies_by_another_socket, replies_to_a_session_that_ends, requests_with_unread_events,
	  queues_are_sent_in_slices, queues_are_freed_in_slices)
