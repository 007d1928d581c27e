/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/admit/watch.h"
#include "core/verbs/bind.h"
#include "core/verbs/conn.h"
#include "core/verbs/handover.h"
#include "core/verbs/id_life.h"
#include "core/verbs/listen.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/session_life.h"
#include "tests/unit/be_user.h"
#include "tests/unit/pair.h"
#include "tests/unit/stopped.h"

/* A listener's backlog limits its unanswered connection requests, whichever session holds them. */

/* the port of the newest listener, to which ask() sends its requests */
static uint16_t port = 7470;

static struct id *listen_with(unsigned backlog)
{
	struct id *id = make(&server, 1);

	if (backlog > 0)
		core->settings.backlog = 1;
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", ++port), &why), 0);
	ck_assert_int_eq(listen_start(id, backlog, &why), 0);
	return id;
}

static uint32_t next_handle = 1;

/* Sends one more connection request. Returns the server's id for the request; NULL: rejected as busy. */
static struct id *ask(void)
{
	struct rdma_conn_param p = param("");
	struct id *active, *request;
	struct refusal refusal;
	unsigned n;

	run_loop();
	active = pair_resolve(next_handle++, port);
	client.n = 0;
	n = server.n = 0;
	p.qp_num = next_handle;
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	run_loop();
	if (server.n > n) {
		ck_assert_int_eq(server.events[n].type, RDMA_CM_EVENT_CONNECT_REQUEST);
		ck_assert_int_eq(
			table_find(server.session, server.events[n].request, &request, &why), 0);
		return request;
	}
	pair_expect(&client, 0, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert(refusal_unpack(&refusal, client.events[0].data, REFUSAL_MAX));
	ck_assert_int_eq(refusal.code, REFUSAL_BUSY);
	ck_assert_uint_gt(refusal.retry_after_ms, 0);
	id_free(active);
	return NULL;
}

static void fill(struct id **requests, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		requests[i] = ask();
		ck_assert_ptr_nonnull(requests[i]);
	}
	ck_assert_ptr_null(ask());
}

static void accept_one(struct id *request)
{
	struct rdma_conn_param p = param("");

	p.qp_num = 10000 + next_handle;
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), 0);
}

/* A backlog of 1 limits the kernel's queue, but must not make the broker reject connection requests. */
START_TEST(the_default_is_the_minimum)
{
	struct id *id = make(&server, 1), *requests[4];

	core->settings.backlog = 4;
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", ++port), &why), 0);
	ck_assert_int_eq(listen_start(id, 1, &why), 0);
	ck_assert_int_eq(fake_get_backlog(core->fabric, port), 1);
	fill(requests, 4);
}
END_TEST

START_TEST(requests_past_the_backlog_are_busy)
{
	struct id *requests[3], *more;

	listen_with(3);
	fill(requests, 3);
	/* An accept or a reject makes room for one more request. */
	accept_one(requests[0]);
	more = ask();
	ck_assert_ptr_nonnull(more);
	ck_assert_ptr_null(ask());
	ck_assert_int_eq(conn_reject(more, NULL, 0, false, &why), 0);
	ck_assert_ptr_nonnull(ask());
	ck_assert_ptr_null(ask());
	id_free(requests[1]);
	ck_assert_ptr_nonnull(ask());
	ck_assert_ptr_null(ask());
	/* An accepted request no longer counts, so destroying its id makes no further room. */
	id_free(requests[0]);
	ck_assert_ptr_null(ask());
	fake_remove_device(core->fabric, "fake0");
	run_loop();
	ck_assert_int_eq(requests[2]->state, ID_REMOVED);
	ck_assert_ptr_null(requests[2]->handshake.backlog);
}
END_TEST

START_TEST(a_rule_caps_the_backlog)
{
	struct id *requests[2];

	pair_set_policy("allow session\nallow listen backlog 2\nallow any\n");
	id_free(listen_with(1));
	listen_with(1000);
	fill(requests, 2);
	/* The end of the session frees its listener and its requests. */
	server.session = session_free(server.session);
	run_loop();
}
END_TEST

START_TEST(a_listener_without_a_backlog)
{
	struct id *requests[2];

	core->settings.backlog = 2;
	listen_with(0);
	fill(requests, 2);
}
END_TEST

static struct notice last;
static char reason[64];

static void on_event(void *userdata, const struct session_event *event)
{
}

static bool on_notice(void *userdata, const struct notice *notice)
{
	last = *notice;
	strcpy(reason, notice->reason);
	return true;
}

START_TEST(a_full_backlog_is_reported)
{
	static const struct session_ops ops = { .event = on_event, .notice = on_notice };
	struct watch_filter filter = { .kind = NOTICE_DECISION,
				       .operation = POLICY_ACCEPT,
				       .outcome = NOTICE_BUSY };
	struct id *requests[1];

	stop_time();
	pair_set_policy("allow session\nallow accept max 10 rate 1/s burst 10\nallow any\n");
	listen_with(1);
	requests[0] = ask();
	ck_assert_ptr_nonnull(requests[0]);
	server.session->ops = &ops;
	ck_assert_int_eq(watch_start(server.session, &filter, &why), 0);
	ck_assert_ptr_null(ask());
	ck_assert_ptr_eq(last.session, server.session);
	ck_assert_str_eq(reason, "backlog 1");
	ck_assert_uint_eq(last.retry_after_ms, 100);
	ck_assert_uint_eq(core->metrics.decisions[POLICY_ACCEPT][DECISION_BUSY], 1);
	ck_assert_uint_eq(last.rule->line, 2);
	ck_assert_uint_eq(admissions_find(core->admissions, last.rule)->n_busy, 1);
	ck_assert_uint_eq(admissions_find(core->admissions, last.rule)->n_now, 1);
}
END_TEST

static struct id *hand_over(struct id *id)
{
	struct id *moved;
	int fd;

	ck_assert_int_eq(handover_export(id, &fd, &why), 0);
	ck_assert_int_eq(handover_import(client.session, fd, &moved, &why), 0);
	close(fd);
	return moved;
}

/* A request that was handed to a worker counts for its listener until the worker has answered or destroyed it. */
START_TEST(requests_handed_to_a_worker)
{
	struct id *requests[2], *moved[2];
	int fd;

	listen_with(2);
	fill(requests, 2);
	ck_assert_int_eq(handover_export(requests[0], &fd, &why), 0);
	ck_assert_ptr_null(ask());
	close(fd);
	run_loop();
	for (int i = 0; i < 2; i++) {
		moved[i] = hand_over(requests[i]);
		ck_assert_ptr_null(ask());
		id_free(requests[i]);
		ck_assert_ptr_null(ask());
	}
	accept_one(moved[0]);
	ck_assert_ptr_nonnull(ask());
	ck_assert_ptr_null(ask());
	id_free(moved[1]);
	ck_assert_ptr_nonnull(ask());
	ck_assert_ptr_null(ask());
}
END_TEST

/* The requests outlive the listener, and must not refer to its freed backlog. */
START_TEST(a_listener_that_is_destroyed)
{
	struct id *requests[2], *again[2], *listener = listen_with(2), *moved;

	fill(requests, 2);
	moved = hand_over(requests[1]);
	id_free(listener);
	listen_with(2);
	fill(again, 2);
	/* Requests to the old listener make no room for requests to the new one. */
	accept_one(requests[0]);
	ck_assert_ptr_null(ask());
	id_free(moved);
	ck_assert_ptr_null(ask());
	accept_one(again[0]);
	ck_assert_ptr_nonnull(ask());
}
END_TEST

START_TEST(a_listener_that_is_handed_over)
{
	struct id *requests[3], *listener = listen_with(3), *moved, *active;
	struct rdma_conn_param p = param("");

	fill(requests, 3);
	/* After the hand-over the rule of the new owner limits the backlog. */
	be_user(client.session, 4242);
	pair_set_policy("allow session\nallow listen user 4242 backlog 2\nallow any\n");
	moved = hand_over(listener);
	ck_assert_int_eq(moved->state, ID_LISTENING);
	for (unsigned i = 0; i < 3; i++) {
		/*
		 * The server's unanswered requests still count. The client owns the listener now, and gets new
		 * requests.
		 */
		run_loop();
		active = pair_resolve(next_handle++, port);
		client.n = 0;
		p.qp_num = next_handle;
		ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
		pair_expect(&client, 0,
			    i < 2 ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_CONNECT_REQUEST,
			    i < 2 ? 28 : 0);
		accept_one(requests[i]);
	}
}
END_TEST

/* The requests come all at once. Only as many as the backlog allows are reported. */
START_TEST(a_flood_of_requests)
{
	struct rdma_conn_param p = param("");
	enum { N = 3000, MAX = 128 };
	struct id *id;

	core->settings.max_ids_per_session = 2 * N;
	core->account.limit_per_user[ACCOUNT_IDS] = 4 * N;
	listen_with(MAX);
	fake_hold_events(core->fabric, true);
	for (uint32_t i = 1; i <= N; i++) {
		id = make(&client, i);
		ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.9.0.1", port), 100, ROUTE_TOO,
					      &why),
				 0);
	}
	fake_hold_events(core->fabric, false);
	run_loop();
	for (uint32_t i = 1; i <= N; i++) {
		ck_assert_int_eq(table_find(client.session, i, &id, &why), 0);
		p.qp_num = i;
		ck_assert_int_eq(conn_connect(id, &p, NULL, &why), 0);
	}
	run_loop();
	ck_assert_uint_eq(server.n, MAX);
	ck_assert_uint_eq(core->n_ids, 1 + N + MAX);
	ck_assert_uint_eq(core->metrics.decisions[POLICY_ACCEPT][DECISION_BUSY], N - MAX);
}
END_TEST

UNIT_MAIN("backlog", pair_set_up, pair_tear_down, the_default_is_the_minimum,
	  requests_past_the_backlog_are_busy, a_rule_caps_the_backlog, a_listener_without_a_backlog,
	  a_full_backlog_is_reported, requests_handed_to_a_worker, a_listener_that_is_destroyed,
	  a_listener_that_is_handed_over, a_flood_of_requests)
