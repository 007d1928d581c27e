/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/conn.h"
#include "core/handover.h"
#include "core/pool.h"
#include "core/resolve.h"
#include "tests/unit/pair.h"

/* Connects that resolve and connect in one request, and the pool of spare ids for them. */

#define KEEP_MS 60000 /* longer than any test runs */
#define SHORT_MS 200 /* for tests of expiry */

static void set_up(void)
{
	pair_set_up();
	pool_set_limits(core->pool, 64, KEEP_MS);
}

/* Runs the loop until N_READY spares are ready. That can take until a timer of the loop expires. */
static void run_until(unsigned n_ready)
{
	struct pool_counts counts;

	for (int i = 0; i < 1000; i++) {
		run_loop();
		pool_get_counts(core->pool, &counts);
		if (counts.n_ready == n_ready)
			return;
		ck_assert_int_ge(sd_event_run(loop, 1000 * 1000), 0);
	}
	ck_abort_msg("%u spares instead of %u", counts.n_ready, n_ready);
}

static struct pool_counts counts(void)
{
	struct pool_counts ret;

	run_loop();
	pool_get_counts(core->pool, &ret);
	return ret;
}

static struct plan plan(const char *device)
{
	struct plan ret = {
		.param = { .qp_num = QPN, .private_data = "hi", .private_data_len = 2 },
		.port_num = 1,
	};

	strcpy(ret.device, device);
	return ret;
}

/*
 * Creates an id and connects it in one request, as rpc does. If that fails the id is destroyed. *RET is the id, or
 * NULL if it was destroyed.
 */
static int connect_with(const struct plan *plan, uint32_t handle, const struct sockaddr *src,
			const struct sockaddr *dst, struct id **ret)
{
	struct id *id;
	int r;

	ck_assert_int_eq(id_new(&id, client.session, handle, RDMA_PS_TCP, /* bare= */ true, &why),
			 0);
	r = resolve_addr(id, src, dst, 100, /* route= */ true, plan, &why);
	if (r != 0)
		id = id_free(id);
	if (ret)
		*ret = id;
	return r;
}

static int connect_to(uint32_t handle, uint16_t port, struct id **ret)
{
	struct plan p = plan("fake0");

	return connect_with(&p, handle, NULL, pair_addr("10.9.0.1", port), ret);
}

/* Makes N connects. It makes no difference to the pool whether they are accepted. */
static void connect_n(uint32_t first, unsigned n, uint16_t port)
{
	for (uint32_t i = first; i < first + n; i++)
		ck_assert_int_eq(connect_to(i, port, NULL), 0);
	run_loop();
}

static void accept_last(void)
{
	struct rdma_conn_param p = param("yes");
	struct id *passive;
	uint32_t handle = server.events[server.n - 1].request;

	ck_assert_int_eq(server.events[server.n - 1].type, RDMA_CM_EVENT_CONNECT_REQUEST);
	ck_assert_mem_eq(server.events[server.n - 1].data, "hi", 2);
	ck_assert_int_eq(table_find(server.session, handle, &passive, &why), 0);
	ck_assert_int_eq(conn_accept(passive, &p, NULL, &why), 0);
}

START_TEST(the_second_connect_uses_a_spare)
{
	unsigned n_addr, n_route;
	struct id *id;

	pair_start_listening(7471);
	ck_assert_int_eq(connect_to(1, 7471, &id), 0);
	ck_assert_int_eq(id->state, ID_ADDR_QUERY);
	/* While the client waits for the peer's reply, no spare is being made for it. */
	ck_assert_uint_eq(counts().n_missed, 1);
	ck_assert_uint_eq(counts().n_ready, 0);
	accept_last();
	/* CONNECT_RESPONSE is the only event, so it also carries the results of resolving. */
	pair_expect(&client, 0, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_uint_eq(client.n, 1);
	ck_assert(client.events[0].with_info);
	ck_assert_int_eq(conn_establish(id, &why), 0);
	ck_assert_uint_eq(counts().n_missed, 1);
	ck_assert_uint_eq(counts().n_ready, 1);

	n_addr = fake_count(core->fabric, FAKE_RESOLVE_ADDR);
	n_route = fake_count(core->fabric, FAKE_RESOLVE_ROUTE);
	ck_assert_int_eq(connect_to(2, 7471, &id), 0);
	ck_assert_int_eq(id->state, ID_CONNECTING);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_RESOLVE_ADDR), n_addr);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_RESOLVE_ROUTE), n_route);
	run_loop();
	accept_last();
	pair_expect(&client, 1, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_uint_eq(client.n, 2);
	ck_assert(client.events[1].with_info);
	ck_assert_int_eq(conn_establish(id, &why), 0);
	run_loop();
	ck_assert_int_eq(id->state, ID_ESTABLISHED);
	ck_assert_uint_eq(core->n_connections, 4);
	/* The spare that was taken is replaced. */
	ck_assert_uint_eq(counts().n_taken, 1);
	ck_assert_uint_eq(counts().n_missed, 1);
	ck_assert_uint_eq(counts().n_ready, 1);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_RESOLVE_ADDR), n_addr + 1);
}
END_TEST

START_TEST(connects_with_a_spare_are_decided)
{
	uint64_t rejected = core->metrics.decisions[POLICY_CONNECT][DECISION_REJECTED];

	connect_n(1, 1, 7471);
	ck_assert_uint_eq(counts().n_ready, 1);
	pair_set_policy("allow session\nreject connect device fake* reason \"closed\"\n");
	ck_assert_int_eq(connect_to(2, 7471, NULL), STATUS_DENIED);
	ck_assert_str_eq(why.rule, "test.rules:2");
	ck_assert_ptr_nonnull(strstr(why.text, "10.9.0.1:7471"));
	ck_assert_uint_eq(core->metrics.decisions[POLICY_CONNECT][DECISION_REJECTED], rejected + 1);
	/* A rejected request does not use up the spare. */
	ck_assert_uint_eq(counts().n_ready, 1);
	ck_assert_uint_eq(core->n_ids, 1);

	pair_set_policy("allow session\nallow connect rate 1/s burst 1\n");
	ck_assert_int_eq(connect_to(2, 7471, NULL), 0);
	ck_assert_uint_eq(counts().n_ready, 1);
	ck_assert_int_eq(connect_to(3, 7471, NULL), STATUS_BUSY);
	ck_assert_uint_gt(why.retry_after_ms, 0);
	ck_assert_uint_eq(core->n_ids, 2);
}
END_TEST

/* A spare whose route was resolved with another traffic class is not used. */
START_TEST(the_traffic_class_has_to_be_the_same)
{
	struct id *id;

	connect_n(1, 1, 7471);
	ck_assert_uint_eq(counts().n_ready, 1);
	pair_set_policy("allow session\nallow connect tos 104\n");
	ck_assert_int_eq(connect_to(2, 7471, &id), 0);
	ck_assert_int_eq(id->state, ID_ADDR_QUERY);
	run_loop();
	ck_assert_int_eq(id->tos, 104);
	ck_assert_uint_eq(counts().n_taken, 0);
	ck_assert_uint_eq(counts().n_missed, 2);
	/* When the old spare has expired, the next one has the new class. */
	pool_set_limits(core->pool, 64, SHORT_MS);
	run_until(0);
	pool_set_limits(core->pool, 64, KEEP_MS);
	connect_n(3, 1, 7471);
	ck_assert_uint_eq(counts().n_ready, 1);
	ck_assert_int_eq(connect_to(4, 7471, &id), 0);
	ck_assert_int_eq(id->state, ID_CONNECTING);
	ck_assert_int_eq(id->tos, 104);
	ck_assert_uint_eq(counts().n_taken, 1);
}
END_TEST

/*
 * The route leads to another device, port or pkey than the QP was made for. The broker drops the plan: the client gets
 * ADDR_RESOLVED and ROUTE_RESOLVED, and has to request the connect itself.
 */
START_TEST(a_route_to_another_device)
{
	struct plan wrong_device = plan("fake9"), wrong_port = plan("fake0"),
		    wrong_pkey = plan("fake0");
	const struct plan *plans[] = { &wrong_device, &wrong_port, &wrong_pkey };
	struct id *id;

	wrong_port.port_num = 2;
	wrong_pkey.pkey_index = 7;
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_int_eq(
			connect_with(plans[i], i + 1, NULL, pair_addr("10.9.0.1", 7471), &id), 0);
		pair_expect(&client, 2 * i, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		ck_assert(client.events[2 * i].with_info);
		pair_expect(&client, 2 * i + 1, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
		ck_assert_uint_eq(client.n, 2 * i + 2);
		ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
		ck_assert_ptr_null(id->plan);
	}
	/* A spare whose route leads to another device or port is not used either. */
	connect_n(4, 1, 7471);
	ck_assert_uint_eq(counts().n_ready, 1);
	ck_assert_int_eq(connect_with(&wrong_port, 5, NULL, pair_addr("10.9.0.1", 7471), &id), 0);
	ck_assert_int_eq(id->state, ID_ADDR_QUERY);
	ck_assert_uint_eq(counts().n_ready, 1);
	ck_assert_uint_eq(counts().n_taken, 0);
}
END_TEST

/* A rejection after the route is known is reported by an event, and the id can be used again. */
START_TEST(a_rejection_after_the_route)
{
	struct plan p = plan("fake0");
	struct id *id;

	fake_estrange_qp(core->fabric, STRANGER);
	p.param.qp_num = STRANGER;
	ck_assert_int_eq(connect_with(&p, 1, NULL, pair_addr("10.9.0.1", 7471), &id), 0);
	pair_expect(&client, 0, RDMA_CM_EVENT_CONNECT_ERROR, -EPERM);
	ck_assert_uint_eq(client.n, 1);
	ck_assert(client.events[0].with_info);
	ck_assert_ptr_nonnull(strstr(client.events[0].text, "does not belong"));
	ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
	ck_assert_ptr_null(id->plan);
	ck_assert_uint_eq(counts().n_missed, 0);

	/* With a spare the rejection is returned at once. */
	connect_n(2, 1, 7471);
	ck_assert_int_eq(connect_with(&p, 3, NULL, pair_addr("10.9.0.1", 7471), NULL),
			 STATUS_NOT_OWNER);
	ck_assert_uint_eq(core->n_ids, 2);

	fake_fail_addresses(core->fabric, 1, -EHOSTUNREACH);
	ck_assert_int_eq(connect_to(4, 7472, &id), 0);
	run_loop();
	ck_assert_int_eq(client.events[client.n - 1].type, RDMA_CM_EVENT_ADDR_ERROR);
	ck_assert_int_eq(id->state, ID_BOUND);
	ck_assert_ptr_null(id->plan);

	fake_fail_next(core->fabric, FAKE_RESOLVE_ROUTE, -EIO);
	ck_assert_int_eq(connect_to(5, 7473, &id), 0);
	run_loop();
	ck_assert_int_eq(client.events[client.n - 1].type, RDMA_CM_EVENT_ROUTE_ERROR);
	ck_assert(client.events[client.n - 1].with_info);
	ck_assert_int_eq(id->state, ID_ADDR_RESOLVED);
	ck_assert_ptr_null(id->plan);
}
END_TEST

START_TEST(changes_of_routes_and_devices_end_spares)
{
	connect_n(1, 2, 7471);
	ck_assert_uint_eq(counts().n_ready, 2);
	fake_change_routes(core->fabric);
	ck_assert_uint_eq(counts().n_ready, 0);
	ck_assert_uint_eq(counts().n_dropped, 2);
	ck_assert_uint_eq(fake_n_ids(core->fabric), 2);
	/* New spares are made for later connects. */
	connect_n(3, 1, 7471);
	ck_assert_uint_eq(counts().n_ready, 1);

	/* The routes change while spares are being made. */
	fake_hold_events(core->fabric, true);
	connect_n(4, 1, 7471);
	fake_change_routes(core->fabric);
	fake_hold_events(core->fabric, false);
	ck_assert_uint_eq(counts().n_ready, 0);
	connect_n(5, 1, 7471);
	ck_assert_uint_eq(counts().n_ready, 1);

	fake_remove_device(core->fabric, "fake0");
	ck_assert_uint_eq(counts().n_ready, 0);
	ck_assert_uint_eq(fake_n_ids(core->fabric), core->n_ids);
}
END_TEST

START_TEST(spares_expire)
{
	connect_n(1, 3, 7471);
	ck_assert_uint_eq(counts().n_ready, 3);
	pool_set_limits(core->pool, 64, SHORT_MS);
	run_until(0);
	ck_assert_uint_eq(counts().n_dropped, 3);
	ck_assert_uint_eq(fake_n_ids(core->fabric), 3);
	/* Nothing is left to do: the loop sleeps. */
	ck_assert_int_eq(sd_event_run(loop, 2 * SHORT_MS * 1000), 0);
}
END_TEST

START_TEST(the_number_of_spares_is_limited)
{
	connect_n(1, POOL_DEPTH + 10, 7471);
	ck_assert_uint_eq(counts().n_ready, POOL_DEPTH);
	pool_set_limits(core->pool, POOL_DEPTH + 4, KEEP_MS);
	connect_n(50, 10, 7472);
	ck_assert_uint_le(counts().n_ready, POOL_DEPTH + 4);
	ck_assert_uint_eq(fake_n_ids(core->fabric), core->n_ids + counts().n_ready);
	pool_set_limits(core->pool, 2, KEEP_MS);
	ck_assert_uint_eq(counts().n_ready, 0);
	connect_n(70, 5, 7473);
	ck_assert_uint_le(counts().n_ready, 2);
	pool_set_limits(core->pool, 0, KEEP_MS);
	connect_n(80, 5, 7473);
	ck_assert_uint_eq(counts().n_ready, 0);
	ck_assert_uint_eq(fake_n_ids(core->fabric), core->n_ids);
	/* Spares for new destinations replace those for old ones. */
	pool_set_limits(core->pool, 64, KEEP_MS);
	core->settings.max_ids_per_session = 2000;
	for (unsigned i = 0; i < 1000; i++)
		ck_assert_int_eq(connect_to(100 + i, (uint16_t)(8000 + i), NULL), 0);
	ck_assert_uint_le(counts().n_ready, 64);
	ck_assert_uint_eq(fake_n_ids(core->fabric), core->n_ids + counts().n_ready);
}
END_TEST

/* Without notifications of route changes, no spares are made. */
START_TEST(no_spares_without_route_notifications)
{
	fake_set_knows_routes(core->fabric, false);
	pool_set_limits(core->pool, 64, KEEP_MS);
	connect_n(1, 3, 7471);
	ck_assert_uint_eq(counts().n_ready, 0);
	fake_set_knows_routes(core->fabric, true);
	pool_set_limits(core->pool, 64, KEEP_MS);
	connect_n(4, 1, 7471);
	ck_assert_uint_eq(counts().n_ready, 1);
	/* If notifications end, the spares end, too. */
	fake_set_knows_routes(core->fabric, false);
	fake_change_routes(core->fabric);
	ck_assert_uint_eq(counts().n_ready, 0);
	connect_n(5, 3, 7471);
	ck_assert_uint_eq(counts().n_ready, 0);
}
END_TEST

/*
 * A connect with a source port cannot use a spare. Any other connect can use a spare that was made with its source
 * address, or without one if the connect has none.
 */
START_TEST(the_source_of_a_spare_must_match)
{
	struct plan p = plan("fake0");
	struct id *id;

	ck_assert_int_eq(connect_with(&p, 1, pair_addr("10.9.0.1", 5000),
				      pair_addr("10.9.0.1", 7471), NULL),
			 0);
	ck_assert_uint_eq(counts().n_missed, 0);
	ck_assert_int_eq(connect_with(&p, 2, pair_addr("10.9.0.1", 0), pair_addr("10.9.0.1", 7471),
				      NULL),
			 0);
	ck_assert_uint_eq(counts().n_ready, 1);
	ck_assert_int_eq(connect_to(3, 7471, &id), 0);
	ck_assert_int_eq(id->state, ID_ADDR_QUERY);
	ck_assert_int_eq(
		connect_with(&p, 4, pair_addr("10.9.0.1", 0), pair_addr("10.9.0.1", 7471), &id), 0);
	ck_assert_int_eq(id->state, ID_CONNECTING);
}
END_TEST

START_TEST(failed_spares_are_freed)
{
	const enum fake_call making[] = { FAKE_ID_NEW, FAKE_RESOLVE_ADDR, FAKE_RESOLVE_ROUTE,
					  FAKE_QP_ATTR, FAKE_SET_OPTION };
	struct id *id;

	pair_set_policy("allow session\nallow connect tos 8\n");
	for (unsigned i = 0; i < 5; i++) {
		uint16_t port = (uint16_t)(7471 + i);

		/*
		 * The client's own calls succeed. The first call of this kind after them is made for the spare, and
		 * fails.
		 */
		fake_hold_events(core->fabric, true);
		ck_assert_int_eq(connect_to(10 + i, port, &id), 0);
		fake_hold_events(core->fabric, false);
		while (id->state != ID_CONNECTING && id->state != ID_FAILED)
			ck_assert_int_gt(sd_event_run(loop, 0), 0);
		fake_fail_next(core->fabric, making[i], -EIO);
		ck_assert_uint_eq(counts().n_ready, 0);
		ck_assert_uint_eq(fake_n_ids(core->fabric), core->n_ids);
	}
	connect_n(20, 1, 7480);
	ck_assert_uint_eq(counts().n_ready, 1);
	ck_assert_int_eq(connect_to(21, 7480, &id), 0);
	ck_assert_int_eq(id->state, ID_CONNECTING);
}
END_TEST

/*
 * Another session imports the id before it is resolved. The plan names a QP of the exporting program, so the plan is
 * dropped.
 */
START_TEST(a_plan_is_dropped_when_its_id_is_imported)
{
	struct id *id, *moved;
	int fd;

	fake_hold_events(core->fabric, true);
	ck_assert_int_eq(connect_to(1, 7471, &id), 0);
	ck_assert_int_eq(handover_export(id, &fd, &why), 0);
	ck_assert_int_eq(handover_import(server.session, fd, &moved, &why), 0);
	close(fd);
	ck_assert_ptr_null(id->plan);
	ck_assert_ptr_null(moved->plan);
	fake_hold_events(core->fabric, false);
	run_loop();
	ck_assert_uint_eq(client.n, 0);
	pair_expect(&server, 0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	pair_expect(&server, 1, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_uint_eq(server.n, 2);
	ck_assert(server.events[0].with_info);
	ck_assert_int_eq(moved->state, ID_ROUTE_RESOLVED);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 0);
}
END_TEST

/* The ACK timeout is part of a resolved route, like the traffic class. So a spare with another one is not used. */
START_TEST(a_spare_of_another_ack_timeout_is_not_used)
{
	struct id *id;

	connect_n(1, 1, 7471);
	ck_assert_uint_eq(counts().n_ready, 1);
	pair_set_policy("allow session\nallow connect ack-timeout 14\n");
	ck_assert_int_eq(connect_to(2, 7471, &id), 0);
	ck_assert_int_eq(id->state, ID_ADDR_QUERY);
	run_loop();
	ck_assert_int_eq(id->ack_timeout, 14);
	ck_assert_uint_eq(counts().n_taken, 0);
	ck_assert_uint_eq(counts().n_missed, 1);
}
END_TEST

/* A connect that offers a number without a QP takes a spare only if the rule has "qp reserved". */
START_TEST(a_spare_for_a_reserved_number)
{
	struct plan p = plan("fake0");

	pair_start_listening(7471);
	connect_n(1, 1, 7471);
	run_until(1);
	fake_hide_qp(core->fabric, STRANGER);
	p.param.qp_num = STRANGER;
	ck_assert_int_eq(connect_with(&p, 2, NULL, pair_addr("10.9.0.1", 7471), NULL),
			 STATUS_NOT_OWNER);
	ck_assert_uint_eq(counts().n_ready, 1);
	ck_assert_uint_eq(counts().n_taken, 0);
	pair_set_policy("allow any qp reserved\n");
	ck_assert_int_eq(connect_with(&p, 3, NULL, pair_addr("10.9.0.1", 7471), NULL), 0);
	ck_assert_uint_eq(counts().n_taken, 1);
}
END_TEST

/* A peer that does not reply delays spares, but does not prevent them. */
START_TEST(a_silent_peer_delays_spares)
{
	pair_start_listening(7471);
	pool_set_limits(core->pool, 64, KEEP_MS / 10);
	ck_assert_int_eq(connect_to(1, 7471, NULL), 0);
	run_loop();
	ck_assert_uint_eq(core->n_handshakes, 1);
	ck_assert_uint_eq(counts().n_ready, 0);
	run_until(1);
	ck_assert_uint_eq(core->n_handshakes, 1);
}
END_TEST

UNIT_MAIN("pool", set_up, pair_tear_down, the_second_connect_uses_a_spare,
	  connects_with_a_spare_are_decided, the_traffic_class_has_to_be_the_same,
	  a_route_to_another_device, a_rejection_after_the_route,
	  changes_of_routes_and_devices_end_spares, spares_expire, the_number_of_spares_is_limited,
	  no_spares_without_route_notifications, the_source_of_a_spare_must_match,
	  failed_spares_are_freed, a_plan_is_dropped_when_its_id_is_imported,
	  a_spare_of_another_ack_timeout_is_not_used, a_spare_for_a_reserved_number,
	  a_silent_peer_delays_spares)
