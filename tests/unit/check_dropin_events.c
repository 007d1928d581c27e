/* SPDX-License-Identifier: BSD-2-Clause */
#include <netinet/in.h>

#include "tests/fake/fake.h"
#include "tests/unit/ends.h"
#include "tests/unit/unit.h"

/* Which events programs of the drop-in get, and when a channel's descriptor is readable. */

#define OTHER_PORT 7480

static void end_server(void)
{
	rdma_destroy_qp(server.id);
	DO(&server, rdma_destroy_id(server.id));
}

static void end_client(void)
{
	rdma_destroy_qp(client.id);
	DO(&client, rdma_destroy_id(client.id));
}

/* ---- a descriptor is readable only if there is an event ---- */

START_TEST(an_id_is_destroyed_whose_event_was_not_taken)
{
	connect_ends(NULL);
	end_server();
	run_daemon();
	ck_assert(is_readable(client.channel));
	end_client();
	run_daemon();
	ck_assert(!is_readable(client.channel));
}
END_TEST

/* The daemon sends the event after the program has called rdma_destroy_id(), but before it reads this call. */
START_TEST(an_id_is_destroyed_whose_event_is_on_its_way)
{
	connect_ends(NULL);
	end_server();
	end_client();
	run_daemon();
	ck_assert(!is_readable(client.channel));
}
END_TEST

START_TEST(an_id_is_destroyed_while_it_resolves)
{
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	DO(&client, rdma_destroy_id(client.id));
	run_daemon();
	ck_assert(!is_readable(client.channel));
}
END_TEST

START_TEST(a_listener_is_destroyed_with_a_request)
{
	struct rdma_conn_param param = { .retry_count = 7 };

	resolve(NULL);
	make_qp(&client);
	DO(&client, rdma_connect(client.id, &param));
	run_daemon();
	ck_assert(is_readable(server.channel));
	DO(&server, rdma_destroy_id(listener));
	run_daemon();
	ck_assert(!is_readable(server.channel));
	await(&client, RDMA_CM_EVENT_REJECTED);
	end_client();
	DO(&server, rdma_create_id(server.channel, &listener, NULL, RDMA_PS_TCP));
}
END_TEST

/* The events of other ids stay, and so does the descriptor readable. */
START_TEST(an_event_stays_behind_a_readable_descriptor)
{
	struct rdma_cm_id *other;

	connect_ends(NULL);
	DO(&client, rdma_create_id(client.channel, &other, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(other, NULL, addr(PORT), 1000));
	end_server();
	run_daemon();
	end_client();
	run_daemon();
	ck_assert(is_readable(client.channel));
	ck_assert_ptr_eq(await(&client, RDMA_CM_EVENT_ADDR_RESOLVED), other);
	ck_assert(!is_readable(client.channel));
	DO(&client, rdma_destroy_id(other));
}
END_TEST

START_TEST(a_group_is_left_whose_event_was_not_taken)
{
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef000001) };

	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_UDP));
	DO(&client, rdma_bind_addr(client.id, addr(0)));
	DO(&client, rdma_join_multicast(client.id, (struct sockaddr *)&group, NULL));
	run_daemon();
	ck_assert(is_readable(client.channel));
	DO(&client, rdma_leave_multicast(client.id, (struct sockaddr *)&group));
	run_daemon();
	ck_assert(!is_readable(client.channel));
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* ---- synchronous servers ---- */

/* Connects a new client.id to the synchronous server. */
static void begin_client(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };

	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(OTHER_PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(&client);
	DO(&client, rdma_connect(client.id, &param));
}

static struct rdma_cm_id *sync_listener(void)
{
	struct rdma_cm_id *id;

	DO(&server, rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	DO(&server, rdma_bind_addr(id, addr(OTHER_PORT)));
	DO(&server, rdma_listen(id, 4));
	return id;
}

static struct rdma_cm_id *passive_endpoint(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = (struct ibv_cq *)&server,
		.recv_cq = (struct ibv_cq *)&server,
	};
	struct rdma_addrinfo info = {
		.ai_flags = RAI_PASSIVE,
		.ai_port_space = RDMA_PS_TCP,
		.ai_qp_type = IBV_QPT_RC,
		.ai_src_addr = addr(OTHER_PORT),
		.ai_src_len = sizeof(struct sockaddr_in),
	};
	struct rdma_cm_id *id;

	DO(&server, rdma_create_ep(&id, &info, NULL, &attr));
	DO(&server, rdma_listen(id, 4));
	return id;
}

static struct rdma_cm_id *get_request(struct rdma_cm_id *from)
{
	struct rdma_cm_id *id = NULL;

	DO(&server, rdma_get_request(from, &id));
	ck_assert_ptr_nonnull(id);
	ck_assert_ptr_ne(id->channel, from->channel);
	return id;
}

static void reject(struct rdma_cm_id *id)
{
	DO(&server, rdma_reject(id, "no", 2));
	await(&client, RDMA_CM_EVENT_REJECTED);
	end_client();
}

static void serve_three(struct rdma_cm_id *from, bool has_qps)
{
	struct rdma_cm_id *id;

	for (int i = 0; i < 3; i++) {
		begin_client();
		id = get_request(from);
		ck_assert_int_eq(id->qp != NULL, has_qps);
		reject(id);
		rdma_destroy_ep(id);
	}
	rdma_destroy_ep(from);
}

START_TEST(three_requests)
{
	serve_three(sync_listener(), /* has_qps= */ false);
}
END_TEST

START_TEST(three_requests_of_an_endpoint)
{
	serve_three(passive_endpoint(), /* has_qps= */ true);
}
END_TEST

START_TEST(three_requests_that_are_migrated)
{
	struct rdma_cm_id *from = sync_listener(), *id;

	for (int i = 0; i < 3; i++) {
		begin_client();
		id = get_request(from);
		DO(&server, rdma_migrate_id(id, server.channel));
		ck_assert_ptr_eq(id->channel, server.channel);
		reject(id);
		DO(&server, rdma_destroy_id(id));
	}
	rdma_destroy_ep(from);
}
END_TEST

START_TEST(three_requests_at_a_time)
{
	struct rdma_cm_id *from = sync_listener(), *ids[3], *clients[3];

	for (int i = 0; i < 3; i++) {
		begin_client();
		clients[i] = client.id;
		ids[i] = get_request(from);
	}
	for (int i = 2; i >= 0; i--) {
		client.id = clients[i];
		reject(ids[i]);
		rdma_destroy_ep(ids[i]);
	}
	rdma_destroy_ep(from);
}
END_TEST

/* Its later requests come as events of the channel. */
START_TEST(a_listener_is_migrated_between_requests)
{
	struct rdma_cm_id *from = sync_listener(), *id;

	begin_client();
	id = get_request(from);
	reject(id);
	rdma_destroy_ep(id);
	DO(&server, rdma_migrate_id(from, server.channel));
	ck_assert_int_lt(BY(&server, rdma_get_request(from, &id)), 0);
	ck_assert_int_eq(errno, EINVAL);
	for (int i = 0; i < 2; i++) {
		begin_client();
		id = await(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
		ck_assert_ptr_eq(id->channel, server.channel);
		reject(id);
		DO(&server, rdma_destroy_id(id));
	}
	DO(&server, rdma_destroy_id(from));
}
END_TEST

/* ---- the paths of a route ---- */

static void expect_gid(const union ibv_gid *gid, uint8_t byte)
{
	for (size_t i = 0; i < sizeof(gid->raw); i++)
		ck_assert_uint_eq(gid->raw[i], byte);
}

/* The path that the fake fabric reports. */
static void expect_path(const struct ibv_sa_path_rec *path, uint8_t tos, uint8_t preference)
{
	expect_gid(&path->sgid, FAKE_SGID);
	expect_gid(&path->dgid, FAKE_DGID);
	ck_assert_uint_eq(path->dlid, htons(0x1001));
	ck_assert_uint_eq(path->slid, htons(0x1002));
	ck_assert_int_eq(path->raw_traffic, 1);
	ck_assert_uint_eq(path->flow_label, htonl(0x12345));
	ck_assert_uint_eq(path->hop_limit, 61);
	ck_assert_uint_eq(path->traffic_class, tos);
	ck_assert_int_eq(path->reversible, 1);
	ck_assert_uint_eq(path->numb_path, 1);
	ck_assert_uint_eq(path->pkey, htons(0x8001));
	/* On Ethernet that of the TOS, if there is one. */
	ck_assert_uint_eq(path->sl, tos > 0 ? tos >> 4 : 3);
	ck_assert_uint_eq(path->mtu_selector, 2);
	ck_assert_uint_eq(path->mtu, IBV_MTU_1024);
	ck_assert_uint_eq(path->rate_selector, 2);
	ck_assert_uint_eq(path->rate, IBV_RATE_40_GBPS);
	ck_assert_uint_eq(path->packet_life_time_selector, 2);
	ck_assert_uint_eq(path->packet_life_time, 15);
	ck_assert_uint_eq(path->preference, preference);
}

static void connect_client(void)
{
	struct rdma_conn_param param = { .qp_num = 17 };

	DO(&client, rdma_connect(client.id, &param));
	server.id = await(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void destroy_both(void)
{
	DO(&client, rdma_destroy_id(client.id));
	DO(&server, rdma_destroy_id(server.id));
}

START_TEST(paths_of_both_ends)
{
	resolve(NULL);
	ck_assert_int_eq(client.id->route.num_paths, 1);
	expect_path(client.id->route.path_rec, 0, 7);
	ck_assert_uint_eq(client.id->route.addr.addr.ibaddr.pkey, 0);
	connect_client();
	ck_assert_uint_eq(server.id->route.addr.addr.ibaddr.pkey, 0);
	ck_assert_int_eq(server.id->route.num_paths, 2);
	expect_path(&server.id->route.path_rec[0], 0, 7);
	expect_path(&server.id->route.path_rec[1], 0, 8);
	destroy_both();
}
END_TEST

/* The route that came with the address is not used, but resolved again. */
START_TEST(path_of_a_tos_between_address_and_route)
{
	uint8_t tos = 32;

	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_int_eq(client.id->route.num_paths, 1);
	expect_path(client.id->route.path_rec, tos, 7);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* The id is migrated when its route has come with its address, but the program has not requested it. */
START_TEST(path_of_a_migrated_id)
{
	struct end other = { .channel = rdma_create_event_channel() };

	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_migrate_id(client.id, other.channel));
	DO(&other, rdma_resolve_route(client.id, 1000));
	await(&other, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_int_eq(client.id->route.num_paths, 1);
	expect_path(client.id->route.path_rec, 0, 7);
	DO(&other, rdma_destroy_id(client.id));
	rdma_destroy_event_channel(other.channel);
}
END_TEST

/* For a look-up the kernel has no path at the listener. */
START_TEST(paths_of_datagram_ids)
{
	struct rdma_cm_id *from;

	DO(&server, rdma_create_id(server.channel, &from, NULL, RDMA_PS_UDP));
	DO(&server, rdma_bind_addr(from, addr(OTHER_PORT)));
	DO(&server, rdma_listen(from, 8));
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_UDP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(OTHER_PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_int_eq(client.id->route.num_paths, 1);
	expect_path(client.id->route.path_rec, 0, 7);
	connect_client();
	ck_assert_int_eq(server.id->route.num_paths, 0);
	ck_assert_ptr_null(server.id->route.path_rec);
	destroy_both();
	DO(&server, rdma_destroy_id(from));
}
END_TEST

/* After a restart that a request has waited for, it has no paths: on Ethernet they follow from the addresses. */
START_TEST(paths_that_the_daemon_does_not_report)
{
	struct rdma_route *route;

	fake_hide_paths(fake_last(), true);
	resolve(NULL);
	connect_client();
	for (int i = 0; i < 2; i++) {
		route = i == 0 ? &client.id->route : &server.id->route;
		ck_assert_int_eq(route->num_paths, 1);
		ck_assert_mem_eq(&route->path_rec->sgid, &route->addr.addr.ibaddr.sgid, 16);
		ck_assert_mem_eq(&route->path_rec->dgid, &route->addr.addr.ibaddr.dgid, 16);
		ck_assert_uint_eq(route->path_rec->mtu, IBV_MTU_1024);
	}
	destroy_both();
}
END_TEST

/* ---- QPs that are destroyed early ---- */

/* The daemon looks for the QP of a connect or an accept before the QP is destroyed. */
START_TEST(a_qp_is_destroyed_after_connect_and_accept)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	struct fabric *fabric = fake_last();
	unsigned n_looked = fake_count(fabric, FAKE_QP_BELONGS);

	resolve(NULL);
	make_qp(&client);
	DO(&client, rdma_connect(client.id, &param));
	ck_assert_uint_eq(fake_count(fabric, FAKE_QP_BELONGS), n_looked);
	rdma_destroy_qp(client.id);
	ck_assert_uint_eq(fake_count(fabric, FAKE_QP_BELONGS), n_looked + 1);

	server.id = await(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(&server);
	DO(&server, rdma_accept(server.id, &param));
	ck_assert_uint_eq(fake_count(fabric, FAKE_QP_BELONGS), n_looked + 1);
	rdma_destroy_qp(server.id);
	ck_assert_uint_eq(fake_count(fabric, FAKE_QP_BELONGS), n_looked + 2);
	ck_assert_uint_eq(fake_count(fabric, FAKE_ACCEPT), 1);
	/* Without a QP, the program confirms the connection itself. */
	await(&client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	destroy_both();
}
END_TEST

UNIT_MAIN("dropin_events", set_up, tear_down, an_id_is_destroyed_whose_event_was_not_taken,
	  an_id_is_destroyed_whose_event_is_on_its_way, an_id_is_destroyed_while_it_resolves,
	  a_listener_is_destroyed_with_a_request, an_event_stays_behind_a_readable_descriptor,
	  a_group_is_left_whose_event_was_not_taken, three_requests, three_requests_of_an_endpoint,
	  three_requests_that_are_migrated, three_requests_at_a_time,
	  a_listener_is_migrated_between_requests, paths_of_both_ends,
	  path_of_a_tos_between_address_and_route, path_of_a_migrated_id, paths_of_datagram_ids,
	  paths_that_the_daemon_does_not_report, a_qp_is_destroyed_after_connect_and_accept)
