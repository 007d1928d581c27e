/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <infiniband/ib.h>
#include <infiniband/sa.h>
#include <netinet/in.h>

#include "proto/addr.h"
#include "tests/fake/fake.h"
#include "tests/unit/ends.h"
#include "tests/unit/ib.h"
#include "tests/unit/unit.h"

/*
 * Programs on InfiniBand, which the fake fabric plays: GIDs of IPoIB's addresses, addresses of AF_IB, P_Keys, and a subnet
 * manager that is slow or away. check_dropin_paths.c has the paths that a program sets itself.
 */

static void expect_ib(const struct sockaddr *address, uint16_t port)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)address;

	ck_assert_uint_eq(ib->sib_family, AF_IB);
	expect_own_gid((const union ibv_gid *)&ib->sib_addr);
	ck_assert_uint_eq(be64toh(ib->sib_sid), (uint64_t)RDMA_PS_TCP << 16 | port);
}

/* Librdmacm knows the GIDs as soon as the address is resolved, and the listener's program with the request. */
START_TEST(gids_of_ip_addresses)
{
	resolve_ip();
	expect_own_gids(client.id);
	ck_assert_uint_eq(client.id->route.addr.addr.ibaddr.pkey, htons(0xffff));
	ck_assert_int_eq(client.id->route.num_paths, 0);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	expect_own_gid(&client.id->route.path_rec->dgid);
	connect_resolved();
	expect_own_gids(server.id);
	end_connection();
}
END_TEST

/* ---- AF_IB ---- */

static void connect_by_gid(void)
{
	create();
	DO(&client, rdma_resolve_addr(client.id, NULL, tcp_on(IB_PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	expect_own_gids(client.id);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	connect_resolved();
}

START_TEST(connection_by_gids)
{
	struct rdma_cm_id *own = listen_on(tcp_on(IB_PORT));

	ck_assert_uint_eq(ntohs(rdma_get_src_port(own)), IB_PORT);
	expect_ib(rdma_get_local_addr(own), IB_PORT);
	connect_by_gid();
	expect_ib(rdma_get_peer_addr(client.id), IB_PORT);
	ck_assert_uint_eq(ntohs(rdma_get_dst_port(client.id)), IB_PORT);
	expect_ib(rdma_get_local_addr(client.id), ntohs(rdma_get_src_port(client.id)));
	expect_ib(rdma_get_local_addr(server.id), IB_PORT);
	expect_ib(rdma_get_peer_addr(server.id), ntohs(rdma_get_src_port(client.id)));
	expect_own_gids(server.id);
	end_connection();
	DO(&server, rdma_destroy_id(own));
}
END_TEST

START_TEST(listener_on_every_gid)
{
	struct sockaddr_ib any = { .sib_family = AF_IB, .sib_pkey = htons(0xffff) };
	struct rdma_cm_id *id;

	/* With the mask 0, the kernel chooses the port, in the id's port space. */
	DO(&server, rdma_create_id(server.channel, &id, NULL, RDMA_PS_TCP));
	DO(&server, rdma_bind_addr(id, (struct sockaddr *)&any));
	ck_assert_uint_ne(rdma_get_src_port(id), 0);
	DO(&server, rdma_listen(id, 8));
	DO(&server, rdma_destroy_id(id));

	any.sib_sid = htobe64((uint64_t)RDMA_PS_TCP << 16 | IB_PORT);
	any.sib_sid_mask = UINT64_MAX;
	id = listen_on((struct sockaddr *)&any);
	connect_by_gid();
	end_connection();
	DO(&server, rdma_destroy_id(id));
}
END_TEST

/* For a new id the drop-in does not wait for the reply, so the error is an event. */
static void expect_address_error(struct sockaddr *address, int status)
{
	create();
	DO(&client, rdma_resolve_addr(client.id, NULL, address, 1000));
	expect_event(RDMA_CM_EVENT_ADDR_ERROR, status);
	DO(&client, rdma_destroy_id(client.id));
}

/* A service id that is not one of the id's port space has no port about which a rule decides. */
START_TEST(services_of_others)
{
	const uint64_t tcp = (uint64_t)RDMA_PS_TCP << 16, whole = UINT64_MAX;
	const struct {
		uint64_t sid, mask;
	} foreign[] = {
		{ (uint64_t)RDMA_PS_UDP << 16 | IB_PORT, whole },
		{ (uint64_t)RDMA_PS_IB << 16 | IB_PORT, whole },
		{ 0x100000000000000 | tcp | IB_PORT, whole },
		{ IB_PORT, whole },
		/* The kernel connects to the whole id, whatever the mask is. */
		{ (uint64_t)RDMA_PS_UDP << 16 | IB_PORT, 0xffff },
		{ (uint64_t)RDMA_PS_UDP << 16 | IB_PORT, 0 },
		{ tcp | IB_PORT, whole << 16 },
		{ tcp | IB_PORT, whole & ~1ULL },
		{ 0x1230000, 0xff0000 },
	};

	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		struct sockaddr *address = ib_addr(foreign[i].sid, foreign[i].mask);

		expect_address_error(address, -EPROTONOSUPPORT);
		create();
		REFUSES(rdma_resolve_addr(client.id, address, tcp_on(IB_PORT), 1000),
			EPROTONOSUPPORT);
		REFUSES(rdma_bind_addr(client.id, address), EPROTONOSUPPORT);
		DO(&client, rdma_bind_addr(client.id, tcp_on(IB_PORT)));
		DO(&client, rdma_destroy_id(client.id));
	}
	/* An own address without a port space is in that of the id. A peer's is the whole service id. */
	expect_address_error(ib_addr(IB_PORT, UINT16_MAX), -EPROTONOSUPPORT);
	create();
	DO(&client, rdma_bind_addr(client.id, ib_addr(IB_PORT, UINT16_MAX)));
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

START_TEST(rules_decide_about_gids)
{
	put_policy("reject listen port 7490\n"
		   "allow connect peer gid:fe80::2:c903:a09:2/127 port 7480\n"
		   "reject connect peer gid:fe80::/64 reason \"not this GID\"\n"
		   "allow any\n");
	expect_address_error(tcp_on(IB_PORT), -EACCES);
	/* Whether the host of an IP address has such a GID is not known, so it is rejected too. */
	expect_address_error(addr(PORT), -EACCES);
	create();
	DO(&client, rdma_bind_addr(client.id, tcp_on(7490)));
	REFUSES(rdma_listen(client.id, 1), EACCES);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* An address of AF_IB belongs to no network device, so only the default partition is implied. */
START_TEST(partitions)
{
	expect_address_error(in_partition(tcp_on(IB_PORT), 0x8001), -EACCES);
	create();
	REFUSES(rdma_bind_addr(client.id, in_partition(tcp_on(IB_PORT), 0x8001)), EACCES);
	REFUSES(rdma_resolve_addr(client.id, in_partition(ib_addr(0, 0), 0x8001), tcp_on(IB_PORT),
				  1000),
		EACCES);
	DO(&client, rdma_destroy_id(client.id));

	put_policy("allow any pkey 1-5\nallow any\n");
	expect_address_error(in_partition(tcp_on(IB_PORT), 0x8002), -ENODEV);
	resolve_in(0x8001);
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_uint_eq(client.id->route.addr.addr.ibaddr.pkey, htons(0x8001));
	DO(&client, rdma_destroy_id(client.id));
	create();
	DO(&client, rdma_bind_addr(client.id, in_partition(tcp_on(IB_PORT), 0x8001)));
	put_policy("allow any\n");
	REFUSES(rdma_listen(client.id, 1), EACCES);
	put_policy("allow listen pkey 1\nallow any\n");
	DO(&client, rdma_listen(client.id, 1));
	DO(&client, rdma_destroy_id(client.id));

	put_policy("reject connect pkey 0x7fff reason \"not the default one\"\nallow any\n");
	expect_address_error(tcp_on(IB_PORT), -EACCES);
}
END_TEST

/* The kernel gives a listener the requests of all partitions. */
START_TEST(partition_of_a_request)
{
	struct rdma_cm_id *own = listen_on(tcp_on(IB_PORT));

	put_policy("allow connect pkey 1\nallow any\n");
	resolve_in(0x8001);
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(&client);
	DO(&client, rdma_connect(client.id, NULL));
	expect_event(RDMA_CM_EVENT_REJECTED, 28);
	ck_assert(!is_readable(server.channel));
	rdma_destroy_qp(client.id);
	DO(&client, rdma_destroy_id(client.id));

	put_policy("allow connect pkey 1\nallow accept pkey 1\nallow any\n");
	resolve_in(0x8001);
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	connect_resolved();
	end_connection();
	DO(&server, rdma_destroy_id(own));
}
END_TEST

/* The partition of the network device that has the IP address. */
START_TEST(partition_of_a_network_device)
{
	fake_set_pkey(0x8001);
	put_policy("allow connect pkey 5\nallow any\n");
	resolve_ip();
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	connect_resolved();
	end_connection();

	put_policy("reject connect pkey 0x8001\nallow any\n");
	expect_address_error(addr(PORT), -EACCES);
	put_policy("reject connect pkey 5\nallow connect pkey 1\nallow session\nallow device\n");
	resolve_ip();
	DO(&client, rdma_destroy_id(client.id));
	put_policy("allow connect pkey 5\nallow session\nallow device\n");
	expect_address_error(addr(PORT), -EACCES);
}
END_TEST

START_TEST(no_infiniband)
{
	fake_be_infiniband(false);
	create();
	REFUSES(rdma_bind_addr(client.id, tcp_on(IB_PORT)), ENODEV);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

START_TEST(multicast_by_gid)
{
	struct sockaddr_ib group = { .sib_family = AF_IB, .sib_pkey = htons(0xffff) };

	group.sib_addr.sib_raw[0] = 0xff;
	group.sib_addr.sib_raw[15] = 7;
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_UDP));
	DO(&client, rdma_bind_addr(client.id, ib_addr(0, 0)));
	DO(&client, rdma_join_multicast(client.id, (struct sockaddr *)&group, NULL));
	await(&client, RDMA_CM_EVENT_MULTICAST_JOIN);
	DO(&client, rdma_leave_multicast(client.id, (struct sockaddr *)&group));
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

static struct rdma_addrinfo *look_up(const char *node, int flags)
{
	struct rdma_addrinfo hints = {
		.ai_flags = flags | RAI_NUMERICHOST,
		.ai_family = AF_IB,
		.ai_port_space = RDMA_PS_TCP,
		.ai_qp_type = IBV_QPT_RC,
	};
	struct rdma_addrinfo *found = NULL;

	return rdma_getaddrinfo(node, "7480", &hints, &found) == 0 ? found : NULL;
}

START_TEST(addresses_are_looked_up)
{
	struct rdma_addrinfo *found = look_up("fe80::2:c903:a09:1", RAI_FAMILY);

	ck_assert_ptr_nonnull(found);
	ck_assert_int_eq(found->ai_family, AF_IB);
	ck_assert_int_eq((int)found->ai_dst_len, (int)sizeof(struct sockaddr_ib));
	expect_ib(found->ai_dst_addr, IB_PORT);
	rdma_freeaddrinfo(found);

	found = look_up("fe80::2:c903:a09:1", RAI_FAMILY | RAI_PASSIVE);
	ck_assert_ptr_nonnull(found);
	expect_ib(found->ai_src_addr, IB_PORT);
	rdma_freeaddrinfo(found);

	/* As in librdmacm, AF_IB without the flag is no hint. */
	found = look_up("fe80::2:c903:a09:1", 0);
	ck_assert_ptr_nonnull(found);
	ck_assert_int_eq(found->ai_family, AF_INET6);
	rdma_freeaddrinfo(found);
	ck_assert_ptr_null(look_up("10.9.0.1", RAI_FAMILY));
}
END_TEST

/* ---- paths ---- */

/* Binds to any IPv6 address with FLOW, and returns what the kernel has got. */
static uint32_t bind_with_flow(const char *policy, uint32_t flow)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_flowinfo = htonl(flow) };

	put_policy(policy);
	create();
	DO(&client, rdma_bind_addr(client.id, (struct sockaddr *)&in6));
	return ntohl(((struct sockaddr_in6 *)rdma_get_local_addr(client.id))->sin6_flowinfo);
}

/* For IPv6 the subnet manager is asked for a path of the traffic class in the source address. */
START_TEST(a_rule_about_the_tos_holds_for_flow_information)
{
	struct sockaddr_in6 dst = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };

	dst.sin6_addr.s6_addr[15] = 1;
	ck_assert_uint_eq(bind_with_flow("allow any\n", 0x0ff12345), 0x0ff12345);
	/* The rule has come after the bind. */
	put_policy("allow connect tos-max 8\nallow any\n");
	DO(&client, rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&dst, 1000));
	expect_event(RDMA_CM_EVENT_ADDR_ERROR, -EACCES);
	DO(&client, rdma_destroy_id(client.id));

	ck_assert_uint_eq(bind_with_flow("allow connect tos-max 8\nallow any\n", 0x0ff12345),
			  0x00812345);
	DO(&client, rdma_destroy_id(client.id));
	ck_assert_uint_eq(bind_with_flow("allow connect tos-max 8\nallow any\n", 0x00412345),
			  0x00412345);
	DO(&client, rdma_destroy_id(client.id));
	ck_assert_uint_eq(bind_with_flow("allow connect tos 3\nallow any\n", 0x00012345),
			  0x00312345);
	DO(&client, rdma_destroy_id(client.id));

	/* An id that was not bound. */
	create();
	DO(&client, rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&dst, 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_uint_eq(
		ntohl(((struct sockaddr_in6 *)rdma_get_local_addr(client.id))->sin6_flowinfo),
		0x00300000);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* The kernel writes the type into the request's message, so it has to know it before. */
START_TEST(endpoints_for_xrc)
{
	struct rdma_addrinfo res = {
		.ai_flags = RAI_PASSIVE,
		.ai_port_space = RDMA_PS_IB,
		.ai_qp_type = IBV_QPT_XRC_RECV,
		.ai_src_addr = addr(IB_PORT),
		.ai_src_len = sizeof(struct sockaddr_in),
		.ai_dst_addr = addr(IB_PORT),
		.ai_dst_len = sizeof(struct sockaddr_in),
	};
	struct rdma_conn_param param = { .qp_num = 17 };
	struct rdma_cm_id *listening, *request;

	DO(&server, rdma_create_ep(&listening, &res, NULL, NULL));
	DO(&server, rdma_listen(listening, 1));
	ck_assert_int_eq(fake_get_qp_type(fake_last(), IB_PORT, false), IBV_QPT_XRC_RECV);

	res.ai_flags = 0;
	res.ai_qp_type = IBV_QPT_XRC_SEND;
	res.ai_src_addr = NULL;
	res.ai_src_len = 0;
	DO(&client, rdma_create_ep(&client.id, &res, NULL, NULL));
	DO(&client, rdma_migrate_id(client.id, client.channel));
	DO(&client, rdma_connect(client.id, &param));
	DO(&server, rdma_get_request(listening, &request));
	ck_assert_int_eq(fake_get_qp_type(fake_last(), IB_PORT, true), IBV_QPT_XRC_SEND);
	ck_assert_int_eq(request->ps, RDMA_PS_IB);
	rdma_destroy_ep(request);
	rdma_destroy_ep(client.id);
	rdma_destroy_ep(listening);

	res.ai_port_space = RDMA_PS_UDP;
	REFUSES(rdma_create_ep(&client.id, &res, NULL, NULL), EINVAL);
}
END_TEST

/* Only in RDMA_PS_IB does the kernel take UC and UD from its caller. */
static void connect_typed(enum ibv_qp_type type)
{
	struct rdma_addrinfo res = {
		.ai_flags = RAI_PASSIVE,
		.ai_port_space = RDMA_PS_IB,
		.ai_qp_type = (int)type,
		.ai_src_addr = addr(IB_PORT),
		.ai_src_len = sizeof(struct sockaddr_in),
		.ai_dst_addr = addr(IB_PORT),
		.ai_dst_len = sizeof(struct sockaddr_in),
	};
	struct rdma_conn_param param = { .qp_num = 17 };
	struct ibv_qp_init_attr attr = {
		.qp_type = type,
		.send_cq = (struct ibv_cq *)&server,
		.recv_cq = (struct ibv_cq *)&server,
	};
	const int told = type == IBV_QPT_RC ? 0 : (int)type; /* RC is the port space's */
	struct rdma_cm_id *listening, *request;

	DO(&server, rdma_create_ep(&listening, &res, NULL, NULL));
	DO(&server, rdma_listen(listening, 1));
	ck_assert_int_eq(fake_get_qp_type(fake_last(), IB_PORT, false), told);
	res.ai_flags = 0;
	res.ai_src_addr = NULL;
	res.ai_src_len = 0;
	DO(&client, rdma_create_ep(&client.id, &res, NULL, &attr));
	ck_assert_int_eq(client.id->qp_type, type);
	DO(&client, rdma_migrate_id(client.id, client.channel));
	DO(&client, rdma_connect(client.id, &param));
	DO(&server, rdma_get_request(listening, &request));
	ck_assert_int_eq(fake_get_qp_type(fake_last(), IB_PORT, true), told);
	ck_assert_int_eq(request->qp_type, type);
	ck_assert_int_eq(request->ps, RDMA_PS_IB);
	DO(&server, rdma_migrate_id(request, server.channel));
	DO(&server, rdma_create_qp(request, NULL, &attr));
	DO(&server, rdma_accept(request, &param));
	await(&client, RDMA_CM_EVENT_ESTABLISHED);
	if (type != IBV_QPT_UD)
		await(&server, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_ep(request);
	rdma_destroy_ep(client.id);
	rdma_destroy_ep(listening);
}

START_TEST(endpoints_for_uc_and_ud)
{
	for (int i = 0; i < 2; i++) {
		connect_typed(IBV_QPT_UC);
		connect_typed(IBV_QPT_UD);
		connect_typed(IBV_QPT_RC);
	}
}
END_TEST

/* ---- the subnet manager ---- */

START_TEST(subnet_manager_is_away)
{
	fake_lose_subnet_manager(fake_last(), 3);
	resolve_ip();
	for (int i = 0; i < 2; i++) {
		DO(&client, rdma_resolve_route(client.id, 1000));
		expect_event(RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT);
	}
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	connect_resolved();
	end_connection();
}
END_TEST

/* The route takes longer than ADDR_RESOLVED is held back. */
START_TEST(subnet_manager_is_slow)
{
	create();
	fake_hold_events(fake_last(), true);
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	fake_release_events(fake_last(), 1);
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_resolve_route(client.id, 1000));
	run_daemon();
	ck_assert(!is_readable(client.channel));
	fake_hold_events(fake_last(), false);
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	expect_own_gids(client.id);
	connect_resolved();
	end_connection();
}
END_TEST

UNIT_MAIN("dropin_ib", set_up_ib, tear_down, gids_of_ip_addresses, connection_by_gids,
	  listener_on_every_gid, services_of_others, rules_decide_about_gids, partitions,
	  partition_of_a_request, partition_of_a_network_device, no_infiniband, multicast_by_gid,
	  addresses_are_looked_up, a_rule_about_the_tos_holds_for_flow_information,
	  endpoints_for_xrc, endpoints_for_uc_and_ud, subnet_manager_is_away,
	  subnet_manager_is_slow)
