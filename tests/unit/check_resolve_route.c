/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/rule/admin.h"
#include "core/verbs/resolve_route.h"
#include "core/verbs/conn.h"
#include "core/verbs/handover.h"
#include "core/verbs/id_life.h"
#include "core/verbs/listen.h"
#include "core/verbs/option.h"
#include "core/verbs/resolve_addr.h"
#include "tests/unit/pair.h"
#include "tests/unit/stopped.h"

/* Routes that are resolved before the client requests them. */

#define LAST(record) (&(record).events[((record).n - 1) % 64])

/* Begins to resolve an address for the client's id 1. Its route will be resolved in advance. */
static struct id *begin(void)
{
	struct id *id = make(&client, 1);

	ck_assert_int_eq(
		resolve_addr(id, NULL, pair_addr("10.9.0.1", 7471), 100, ROUTE_AHEAD, &why), 0);
	return id;
}

static uint16_t port_of(const struct id *id)
{
	struct fabric_id_info info;

	fabric_id_get_info(id->fabric, &info);
	return (uint16_t)addr_port((struct sockaddr *)&info.local);
}

/* Returns an id whose address is resolved, and whose route event is held back. */
static struct id *hold_route(void)
{
	struct id *id;

	fake_hold_events(core->fabric, true);
	id = begin();
	fake_release_events(core->fabric, 1);
	run_loop();
	ck_assert_int_eq(id->state, ID_ROUTE_QUERY);
	ck_assert_uint_eq(client.n, 0);
	return id;
}

#define HOLD_USEC 20000 /* for so long the core holds ADDR_RESOLVED back */

/* The core does not hold the client's next event back any more. */
static void await_event(void)
{
	unsigned n = client.n;

	step_time(HOLD_USEC - 1000);
	ck_assert_uint_eq(client.n, n);
	step_time(2000);
	ck_assert_uint_eq(client.n, n + 1);
}

static void set_up(void)
{
	stop_time();
	pair_set_up();
}

static void expect_address(bool routed)
{
	ck_assert_uint_eq(client.n, 1);
	ck_assert_int_eq(LAST(client)->type, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_int_eq(LAST(client)->status, 0);
	ck_assert_int_eq(LAST(client)->routed, routed);
	ck_assert(LAST(client)->with_info && LAST(client)->with_init);
}

static void expect_last(unsigned n, enum rdma_cm_event_type type, int status)
{
	run_loop();
	ck_assert_uint_eq(client.n, n);
	ck_assert_int_eq(LAST(client)->type, type);
	ck_assert_int_eq(LAST(client)->status, status);
}

START_TEST(one_event_reports_both)
{
	struct rdma_conn_param p = param("hello");
	struct id *id;

	pair_start_listening(7471);
	id = begin();
	run_loop();
	expect_address(/* routed= */ true);
	ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
	ck_assert_uint_eq(core->metrics.events[RDMA_CM_EVENT_ROUTE_RESOLVED], 1);
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), 0);
	pair_expect(&server, 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}
END_TEST

START_TEST(the_client_requests_the_route_all_the_same)
{
	struct id *id = begin();

	run_loop();
	expect_address(/* routed= */ true);
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	/* The event must not be sent before the reply. */
	ck_assert_uint_eq(client.n, 1);
	expect_last(2, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_RESOLVE_ROUTE), 1);
	/* The route can be requested only once, as in the kernel. */
	ck_assert_int_eq(resolve_route(id, 100, &why), STATUS_BAD_STATE);
}
END_TEST

START_TEST(the_route_was_requested_with_the_address)
{
	struct id *id = make(&client, 1);

	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.9.0.1", 7471), 100,
				      ROUTE_TOO | ROUTE_AHEAD, &why),
			 0);
	run_loop();
	expect_address(/* routed= */ true);
	ck_assert_int_eq(resolve_route(id, 100, &why), STATUS_BAD_STATE);
}
END_TEST

START_TEST(a_slow_route_does_not_delay_the_address)
{
	struct id *id = hold_route();

	await_event();
	expect_address(/* routed= */ false);
	/* The client requests the route while it is being resolved. */
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	fake_hold_events(core->fabric, false);
	expect_last(2, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_RESOLVE_ROUTE), 1);
}
END_TEST

START_TEST(a_slow_route_that_is_requested_late)
{
	struct id *id = hold_route();

	await_event();
	fake_hold_events(core->fabric, false);
	run_loop();
	expect_address(/* routed= */ false);
	ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	expect_last(2, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}
END_TEST

/* The client does not know that the route is resolved, and cannot connect, as if the route had not been resolved ahead. */
START_TEST(a_slow_route_that_is_not_requested)
{
	struct rdma_conn_param p = param("hello");
	struct id *id = hold_route();

	await_event();
	fake_estrange_qp(core->fabric, p.qp_num);
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), STATUS_BAD_STATE);
	fake_hold_events(core->fabric, false);
	run_loop();
	ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), STATUS_BAD_STATE);
	fake_estrange_qp(core->fabric, 0);
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), STATUS_BAD_STATE);
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	expect_last(2, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), 0);
}
END_TEST

/* The client gets the error only if the route fails again after the client has requested it. */
START_TEST(a_route_that_fails)
{
	struct fabric_event error = { .type = RDMA_CM_EVENT_ROUTE_ERROR, .status = -ETIMEDOUT };
	struct id *id = hold_route();

	core->on_event(id, &error);
	expect_address(/* routed= */ false);
	ck_assert_int_eq(id->state, ID_ADDR_RESOLVED);
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	core->on_event(id, &error);
	expect_last(2, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT);
}
END_TEST

START_TEST(a_route_that_cannot_begin)
{
	struct id *id;

	fake_fail_next(core->fabric, FAKE_RESOLVE_ROUTE, -ENOMEM);
	id = begin();
	run_loop();
	expect_address(/* routed= */ false);
	ck_assert_int_eq(id->state, ID_ADDR_RESOLVED);
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	expect_last(2, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}
END_TEST

/* The kernel resolves the route of an id once, and the TOS is part of the route. So a new fabric id is needed. */
START_TEST(an_option_that_is_set_in_between)
{
	struct id *id = begin();
	struct fabric_id *old;
	uint16_t port;

	run_loop();
	expect_address(/* routed= */ true);
	port = port_of(id);
	old = id->fabric;
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_TOS, 32, &why), 0);
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_ACK_TIMEOUT, 9, &why), 0);
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	ck_assert_ptr_ne(id->fabric, old);
	expect_last(2, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
	ck_assert_uint_eq(port_of(id), port);
	ck_assert_int_eq(fake_get_option(core->fabric, port, RDMA_OPTION_ID_TOS), 32);
	ck_assert_int_eq(fake_get_option(core->fabric, port, RDMA_OPTION_ID_ACK_TIMEOUT), 9);
	ck_assert_int_eq(id->options.now[OPTION_TOS], 32);
	ck_assert_int_eq(id->route.tos, 32);
	ck_assert_uint_eq(fake_n_ids(core->fabric), 1);
}
END_TEST

/* The old fabric id keeps the port until the kernel has destroyed it, some time later. */
START_TEST(the_old_id_still_has_the_port)
{
	struct id *id = begin();
	uint16_t port;

	run_loop();
	port = port_of(id);
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_TOS, 32, &why), 0);
	session_begin_request(client.session);
	fake_fail_next(core->fabric, FAKE_BIND, -EINPROGRESS);
	ck_assert_int_eq(resolve_route(id, 100, &why), -EINPROGRESS);
	/* It keeps its peer. */
	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.9.0.2", 7471), 100, ROUTE_LATER,
				      &why),
			 STATUS_BAD_STATE);
	/* The caller repeats the request when the port is free. */
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	expect_last(2, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_uint_eq(port_of(id), port);
}
END_TEST

/* Another program has bound the port. The id has no address any more, and can only be destroyed. */
START_TEST(the_port_is_lost)
{
	struct id *id = begin();

	run_loop();
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_TOS, 32, &why), 0);
	fake_fail_next(core->fabric, FAKE_BIND, -EADDRINUSE);
	ck_assert_int_eq(resolve_route(id, 100, &why), STATUS_FABRIC);
	ck_assert_int_eq(why.error, EADDRINUSE);
	ck_assert_int_eq(id->state, ID_FAILED);
	ck_assert_int_eq(resolve_route(id, 100, &why), STATUS_BAD_STATE);
	ck_assert_int_eq(listen_start(id, 0, &why), STATUS_BAD_STATE);
}
END_TEST

START_TEST(policy_decides_again_with_the_new_address)
{
	struct id *id = begin();

	run_loop();
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_TOS, 32, &why), 0);
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	pair_set_policy("reject connect\nallow any\n");
	expect_last(2, RDMA_CM_EVENT_ROUTE_ERROR, -EACCES);
	ck_assert_int_eq(resolve_route(id, 100, &why), STATUS_BAD_STATE);
}
END_TEST

START_TEST(the_address_cannot_be_resolved_again)
{
	struct id *id = begin();

	run_loop();
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_TOS, 32, &why), 0);
	fake_fail_addresses(core->fabric, 1, -EHOSTUNREACH);
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	expect_last(2, RDMA_CM_EVENT_ROUTE_ERROR, -EHOSTUNREACH);
}
END_TEST

START_TEST(no_new_fabric_id)
{
	struct id *id = begin();

	run_loop();
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_TOS, 32, &why), 0);
	fake_fail_next(core->fabric, FAKE_ID_NEW, -ENOMEM);
	ck_assert_int_eq(resolve_route(id, 100, &why), STATUS_FABRIC);
	ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
	/* The failed call has not changed the id, so a further attempt can succeed. */
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	expect_last(2, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}
END_TEST

/* The client does not know the device yet, so the first event carries the id's info. */
START_TEST(the_device_disappears_meanwhile)
{
	hold_route();
	fake_remove_device(core->fabric, "fake0");
	fake_hold_events(core->fabric, false);
	run_loop();
	ck_assert_uint_ge(client.n, 1);
	ck_assert(client.events[0].with_info);
	ck_assert_int_eq(LAST(client)->type, RDMA_CM_EVENT_DEVICE_REMOVAL);
}
END_TEST

START_TEST(an_admin_ends_the_id_meanwhile)
{
	struct id *id = hold_route();

	ck_assert_int_eq(admin_kick_id(server.session, client.session->number, id->handle, &why),
			 0);
	expect_last(1, RDMA_CM_EVENT_CONNECT_ERROR, -EACCES);
	fake_hold_events(core->fabric, false);
	/* The ADDR_RESOLVED that was held back is not sent any more. */
	step_time(HOLD_USEC + 1000);
	ck_assert_ptr_eq(core->route_holds->ids.next, &core->route_holds->ids);
	for (unsigned i = 0; i < client.n; i++)
		ck_assert_int_ne(client.events[i].type, RDMA_CM_EVENT_ADDR_RESOLVED);
}
END_TEST

START_TEST(the_id_changes_hands_meanwhile)
{
	struct id *id = hold_route(), *moved;
	int fd;

	ck_assert_int_eq(handover_export(id, &fd, &why), 0);
	ck_assert_int_eq(handover_import(server.session, fd, &moved, &why), 0);
	close(fd);
	fake_hold_events(core->fabric, false);
	run_loop();
	ck_assert_uint_eq(client.n, 0);
	ck_assert_uint_eq(server.n, 1);
	ck_assert_int_eq(server.events[0].type, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert(server.events[0].routed);
	ck_assert_int_eq(moved->state, ID_ROUTE_RESOLVED);
}
END_TEST

START_TEST(the_id_is_freed_meanwhile)
{
	id_free(hold_route());
	ck_assert(list_is_empty(&core->route_holds->ids));
	fake_hold_events(core->fabric, false);
	run_loop();
	ck_assert_uint_eq(client.n, 0);
}
END_TEST

/* After a restart of the daemon, a connect waits until the route is resolved again. */
static struct id *connect_restored(void)
{
	struct rdma_conn_param conn = param("hello");
	struct fabric_id_info info = { .device = "fake0" };
	struct id *id = make(&client, 1);

	memcpy(&info.local, pair_addr("10.9.0.1", 5000), sizeof(struct sockaddr_in));
	memcpy(&info.peer, pair_addr("10.9.0.1", 7471), sizeof(struct sockaddr_in));
	ck_assert_int_eq(resolve_route_restore(id, &info), 0);
	fake_hold_events(core->fabric, true);
	ck_assert_int_eq(conn_connect(id, &conn, NULL, &why), -EINPROGRESS);
	ck_assert_int_eq(conn_connect(id, &conn, NULL, &why), -EINPROGRESS);
	ck_assert_uint_eq(client.n_resumed, 0);
	return id;
}

static void expect_refusal(struct id *id, enum id_state state)
{
	struct rdma_conn_param conn = param("hello");

	ck_assert_uint_eq(client.n_resumed, 1);
	ck_assert_int_eq(id->state, state);
	ck_assert_int_eq(conn_connect(id, &conn, NULL, &why), STATUS_BAD_STATE);
}

START_TEST(the_device_disappears_while_a_connect_waits)
{
	struct id *id = connect_restored();

	fake_forget_events(core->fabric);
	fake_remove_device(core->fabric, "fake0");
	fake_hold_events(core->fabric, false);
	run_loop();
	expect_refusal(id, ID_REMOVED);
}
END_TEST

START_TEST(an_admin_ends_the_id_while_a_connect_waits)
{
	struct id *id = connect_restored();

	ck_assert_int_eq(admin_kick_id(server.session, client.session->number, 1, &why), 0);
	run_loop();
	expect_refusal(id, ID_REVOKED);
}
END_TEST

/* A datagram id can join groups only while its route is not resolved. */
START_TEST(not_for_datagrams)
{
	struct id *id;

	ck_assert_int_eq(id_new(&id, client.session, 1, RDMA_PS_UDP, &why), 0);
	ck_assert_int_eq(
		resolve_addr(id, NULL, pair_addr("10.9.0.1", 7471), 100, ROUTE_AHEAD, &why), 0);
	run_loop();
	expect_address(/* routed= */ false);
	ck_assert_int_eq(id->state, ID_ADDR_RESOLVED);
}
END_TEST

UNIT_MAIN("resolve_route", set_up, pair_tear_down, one_event_reports_both,
	  the_client_requests_the_route_all_the_same, the_route_was_requested_with_the_address,
	  a_slow_route_does_not_delay_the_address, a_slow_route_that_is_requested_late,
	  a_slow_route_that_is_not_requested, a_route_that_fails, a_route_that_cannot_begin,
	  an_option_that_is_set_in_between, the_old_id_still_has_the_port, the_port_is_lost,
	  policy_decides_again_with_the_new_address, the_address_cannot_be_resolved_again,
	  no_new_fabric_id, the_device_disappears_meanwhile, an_admin_ends_the_id_meanwhile,
	  the_id_changes_hands_meanwhile, the_id_is_freed_meanwhile,
	  the_device_disappears_while_a_connect_waits, an_admin_ends_the_id_while_a_connect_waits,
	  not_for_datagrams)
