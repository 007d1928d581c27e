/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <infiniband/ib.h>
#include <infiniband/sa.h>
#include <netinet/in.h>

#include "client/admin.h"
#include "proto/addr.h"
#include "tests/fake/fake.h"
#include "tests/unit/ends.h"
#include "tests/unit/place.h"
#include "tests/unit/unit.h"

/*
 * Programs on InfiniBand, which the fake fabric plays: GIDs of IPoIB's addresses, addresses of AF_IB, P_Keys, paths that a
 * program sets itself, and a subnet manager that is slow or away.
 */

#define IB_PORT 7480

static void put_policy(const char *rules)
{
	struct rdmabroker_reload_result *result;
	struct rdmabroker *admin;

	place_write(rules, "[Daemon]\nLogLevel=warning\n");
	ck_assert_int_eq(rdmabroker_open(NULL, &admin), 0);
	ck_assert_int_eq(rdmabroker_reload(admin, false, &result), 0);
	ck_assert(result->ok);
	rdmabroker_free(result);
	rdmabroker_close(admin);
}

static void set_up_ib(void)
{
	fake_be_infiniband(true);
	set_up();
	put_policy("allow any\n");
}

/* The GID of this host, as an address of AF_IB. SID: of any port space. */
static struct sockaddr *ib_addr(uint64_t sid, uint64_t mask)
{
	static struct sockaddr_ib ibs[2];
	static unsigned n;
	struct sockaddr_ib *ib = &ibs[n++ % 2];

	*ib = (struct sockaddr_ib){
		.sib_family = AF_IB,
		.sib_pkey = htons(0xffff),
		.sib_sid = htobe64(sid),
		.sib_sid_mask = htobe64(mask),
	};
	fake_gid_of((union ibv_gid *)&ib->sib_addr, addr(0));
	return (struct sockaddr *)ib;
}

static struct sockaddr *tcp_on(uint16_t port)
{
	return ib_addr((uint64_t)RDMA_PS_TCP << 16 | port, UINT64_MAX);
}

static void expect_own_gid(const union ibv_gid *gid)
{
	union ibv_gid own;

	fake_gid_of(&own, addr(0));
	ck_assert_mem_eq(gid, &own, sizeof(own));
}

static void expect_own_gids(const struct rdma_cm_id *id)
{
	expect_own_gid(&id->route.addr.addr.ibaddr.sgid);
	expect_own_gid(&id->route.addr.addr.ibaddr.dgid);
}

static void expect_ib(const struct sockaddr *address, uint16_t port)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)address;

	ck_assert_uint_eq(ib->sib_family, AF_IB);
	expect_own_gid((const union ibv_gid *)&ib->sib_addr);
	ck_assert_uint_eq(be64toh(ib->sib_sid), (uint64_t)RDMA_PS_TCP << 16 | port);
}

static void create(void)
{
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
}

static void resolve_ip(void)
{
	create();
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
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

static struct rdma_cm_id *listen_on(struct sockaddr *address)
{
	struct rdma_cm_id *id;

	DO(&server, rdma_create_id(server.channel, &id, NULL, RDMA_PS_TCP));
	DO(&server, rdma_bind_addr(id, address));
	DO(&server, rdma_listen(id, 8));
	return id;
}

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

static void expect_event(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event;

	DO(&client, rdma_get_cm_event(client.channel, &event));
	ck_assert_int_eq(event->event, type);
	ck_assert_int_eq(event->status, status);
	rdma_ack_cm_event(event);
}

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

static struct sockaddr *in_partition(struct sockaddr *address, uint16_t pkey)
{
	((struct sockaddr_ib *)address)->sib_pkey = htons(pkey);
	return address;
}

static void resolve_in(uint16_t pkey)
{
	create();
	DO(&client, rdma_resolve_addr(client.id, NULL, in_partition(tcp_on(IB_PORT), pkey), 1000));
}

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

static struct ibv_path_data make_path(void)
{
	struct ibv_path_data data = {
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = {
			/* Those that the subnet manager tells, or else the packets would go to another host. */
			.dlid = htons(0x1001),
			.slid = htons(0x1002),
			.flowlabel_hoplimit = htonl(0x77 << 8 | 3),
			.reversible_numpath = IBV_PATH_RECORD_REVERSIBLE | 1,
			.pkey = htons(0xffff),
			.qosclass_sl = htons(3),
			.mtu = 2 << 6 | IBV_MTU_2048,
			.rate = 2 << 6 | IBV_RATE_20_GBPS,
			.packetlifetime = 2 << 6 | 14,
		},
	};

	fake_gid_of(&data.path.sgid, addr(0));
	fake_gid_of(&data.path.dgid, addr(0));
	return data;
}

static int set_path(const struct ibv_path_data *data, size_t n)
{
	return rdma_set_option(client.id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, (void *)data,
			       n * sizeof(*data));
}

static void expect_set_path(void)
{
	const struct ibv_sa_path_rec *path = client.id->route.path_rec;

	ck_assert_int_eq(client.id->route.num_paths, 1);
	ck_assert_uint_eq(path->dlid, htons(0x1001));
	ck_assert_uint_eq(path->slid, htons(0x1002));
	ck_assert_uint_eq(path->sl, 3);
	ck_assert_uint_eq(path->flow_label, htonl(0x77));
	ck_assert_uint_eq(path->hop_limit, 3);
	ck_assert_uint_eq(path->mtu, IBV_MTU_2048);
}

/* The drop-in lets the daemon resolve the route with the address, and then the program sets another one. */
START_TEST(path_of_the_program)
{
	struct ibv_path_data paths[2] = { make_path(), make_path() };

	/* As the kernel, the first path that connection requests can use is taken. */
	paths[0].flags = IBV_PATH_FLAG_ALTERNATE;
	paths[0].path.dlid = htons(0x99);
	resolve_ip();
	DO(&client, set_path(paths, 2));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	expect_set_path();
	connect_resolved();
	end_connection();
}
END_TEST

/* Nobody has told to whom the LIDs belong. */
START_TEST(path_when_the_subnet_manager_is_away)
{
	const struct ibv_path_data path = make_path();

	fake_lose_subnet_manager(fake_last(), 1);
	resolve_ip();
	REFUSES(set_path(&path, 1), EINVAL);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	/* As in the kernel, it is too late then. */
	REFUSES(set_path(&path, 1), EINVAL);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

static void let_it_answer(void)
{
	fake_hold_events(fake_last(), false);
}

static void remove_the_device(void)
{
	fake_forget_events(fake_last());
	fake_remove_device(fake_last(), "fake0");
	fake_hold_events(fake_last(), false);
}

static void (*meanwhile)(
	void); /* is called once when a program waits and the daemon has nothing to do */

static bool turn(void *userdata)
{
	void (*once)(void) = meanwhile;

	if (hooks_run(hooks_get_loop()) > 0)
		return true;
	meanwhile = NULL;
	if (once)
		once();
	return once || sd_event_run(hooks_get_loop(), 3000) > 0;
}

/* The address is resolved, and the route is not when the program sets a path. WHAT happens while it waits. */
static int set_path_early(void (*what)(void))
{
	const struct ibv_path_data path = make_path();

	create();
	fake_hold_events(fake_last(), true);
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	fake_release_events(fake_last(), 1);
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	meanwhile = what;
	hooks_set_turn(turn, NULL);
	return BY(&client, set_path(&path, 1));
}

START_TEST(path_waits_for_the_subnet_manager)
{
	ck_assert_int_eq(set_path_early(let_it_answer), 0);
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	expect_set_path();
	connect_resolved();
	end_connection();

	ck_assert_int_lt(set_path_early(remove_the_device), 0);
	ck_assert_int_eq(errno, EINVAL);
	await(&client, RDMA_CM_EVENT_DEVICE_REMOVAL);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* Rules have decided about the address, so a path that leads elsewhere is refused. */
START_TEST(path_to_another_host)
{
	struct ibv_path_data path = make_path();

	resolve_ip();
	path.path.dgid.raw[15]++;
	REFUSES(set_path(&path, 1), EINVAL);
	path = make_path();
	path.path.sgid.raw[15]++;
	REFUSES(set_path(&path, 1), EINVAL);
	/* On InfiniBand the packets go to the LID, whatever the GIDs are. */
	path = make_path();
	path.path.dlid++;
	REFUSES(set_path(&path, 1), EINVAL);
	path = make_path();
	path.path.slid++;
	REFUSES(set_path(&path, 1), EINVAL);
	path = make_path();
	path.flags = IBV_PATH_FLAG_GMP;
	REFUSES(set_path(&path, 1), EINVAL);
	REFUSES(set_path(&path, 0), EINVAL);
	REFUSES(rdma_set_option(client.id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, 7), EINVAL);
	REFUSES(rdma_set_option(client.id, RDMA_OPTION_IB, 2, &path, sizeof(path)), ENOSYS);
	/* The route that was resolved with the address can still be used. */
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* The subnet manager gives a service level to those whom it wants to have it. */
START_TEST(path_with_another_service_level)
{
	struct ibv_path_data path = make_path();

	resolve_ip();
	path.path.qosclass_sl = htons(4);
	REFUSES(set_path(&path, 1), EINVAL);
	/* The bits above it are the class of the path. */
	path.path.qosclass_sl = htons(0x7f3);
	DO(&client, set_path(&path, 1));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* A port has 2^LMC LIDs, so a path can have any of them. */
START_TEST(path_with_other_lids_of_the_port)
{
	struct ibv_path_data path = make_path();

	resolve_ip();
	path.path.slid = htons(0x1003);
	REFUSES(set_path(&path, 1), EINVAL);
	fake_set_lmc(2);
	path.path.slid = htons(0x1004);
	REFUSES(set_path(&path, 1), EINVAL);
	path.path.slid = htons(0x1003);
	path.path.dlid = htons(0x1004);
	REFUSES(set_path(&path, 1), EINVAL);
	path.path.dlid = htons(0x1000);
	DO(&client, set_path(&path, 1));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_uint_eq(client.id->route.path_rec->dlid, htons(0x1000));
	connect_resolved();
	end_connection();
}
END_TEST

static void expect_refused_connect(void)
{
	make_qp(&client);
	DO(&client, rdma_connect(client.id, NULL));
	expect_event(RDMA_CM_EVENT_CONNECT_ERROR, -EACCES);
	rdma_destroy_qp(client.id);
	DO(&client, rdma_destroy_id(client.id));
}

/* A path has a P_Key, too, whatever the partition of the network device is. */
START_TEST(path_in_another_partition)
{
	static const char both[] = "allow connect pkey 1 log\nallow any\n";
	struct ibv_path_data path = make_path();

	path.path.pkey = htons(0x8000);
	resolve_ip();
	REFUSES(set_path(&path, 1), EINVAL);
	path.path.pkey = htons(0x8001);
	REFUSES(set_path(&path, 1), EACCES);
	/* The route of the subnet manager can still be used. */
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	connect_resolved();
	end_connection();

	put_policy(both);
	resolve_ip();
	DO(&client, set_path(&path, 1));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_uint_eq(client.id->route.path_rec->pkey, htons(0x8001));
	connect_resolved();
	end_connection();

	/* The rule has gone before the connect. */
	resolve_ip();
	DO(&client, set_path(&path, 1));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	put_policy("allow any\n");
	expect_refused_connect();

	/* A network device in another partition than the path's, which is the default one. */
	fake_set_pkey(0x8001);
	path.path.pkey = htons(0xffff);
	resolve_ip();
	REFUSES(set_path(&path, 1), EACCES);
	path.path.pkey = htons(0x0001);
	DO(&client, set_path(&path, 1));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* As in the kernel, a route is set once. What is refused later does not hide what the path was. */
START_TEST(path_that_is_set_twice)
{
	struct ibv_path_data path = make_path(), usual = make_path();

	path.path.pkey = htons(0x8001);
	for (int i = 0; i < 2; i++) {
		put_policy("allow connect pkey 1\nallow any\n");
		resolve_ip();
		DO(&client, set_path(&path, 1));
		await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
		if (i == 0)
			REFUSES(set_path(&usual, 1), EINVAL);
		else
			REFUSES(rdma_resolve_route(client.id, 1000), EINVAL);
		put_policy("allow any\n");
		expect_refused_connect();
	}
}
END_TEST

START_TEST(path_with_a_rule_about_the_tos)
{
	const struct ibv_path_data path = make_path();

	put_policy("allow connect tos-max 8\nallow any\n");
	resolve_ip();
	REFUSES(set_path(&path, 1), EACCES);
	DO(&client, rdma_destroy_id(client.id));

	/* A path that was set before the rule came is not used. */
	put_policy("allow any\n");
	resolve_ip();
	DO(&client, set_path(&path, 1));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	put_policy("allow connect tos-max 8\nallow any\n");
	make_qp(&client);
	DO(&client, rdma_connect(client.id, NULL));
	expect_event(RDMA_CM_EVENT_CONNECT_ERROR, -EACCES);
	rdma_destroy_qp(client.id);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

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

START_TEST(endpoint_with_a_path)
{
	struct ibv_path_data path = make_path();
	struct rdma_addrinfo res = {
		.ai_family = AF_INET,
		.ai_port_space = RDMA_PS_TCP,
		.ai_qp_type = IBV_QPT_RC,
		.ai_dst_addr = addr(PORT),
		.ai_dst_len = sizeof(struct sockaddr_in),
		.ai_route = &path,
		.ai_route_len = sizeof(path),
	};

	DO(&client, rdma_create_ep(&client.id, &res, NULL, NULL));
	expect_set_path();
	rdma_destroy_ep(client.id);
	path.path.dgid.raw[15]++;
	REFUSES(rdma_create_ep(&client.id, &res, NULL, NULL), EINVAL);
}
END_TEST

/* ---- XRC ---- */

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
	  addresses_are_looked_up, path_of_the_program, path_when_the_subnet_manager_is_away,
	  path_waits_for_the_subnet_manager, path_to_another_host, path_with_another_service_level,
	  path_with_other_lids_of_the_port, path_in_another_partition, path_that_is_set_twice,
	  path_with_a_rule_about_the_tos, a_rule_about_the_tos_holds_for_flow_information,
	  endpoint_with_a_path, endpoints_for_xrc, endpoints_for_uc_and_ud, subnet_manager_is_away,
	  subnet_manager_is_slow)
