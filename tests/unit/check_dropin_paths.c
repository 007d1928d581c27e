/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/ib.h>
#include <infiniband/sa.h>
#include <netinet/in.h>

#include "tests/fake/fake.h"
#include "tests/unit/ends.h"
#include "tests/unit/ib.h"
#include "tests/unit/unit.h"

/* Paths that a program on InfiniBand sets itself, in place of the subnet manager's. */

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

UNIT_MAIN("dropin_paths", set_up_ib, tear_down, path_of_the_program,
	  path_when_the_subnet_manager_is_away, path_waits_for_the_subnet_manager,
	  path_to_another_host, path_with_another_service_level, path_with_other_lids_of_the_port,
	  path_in_another_partition, path_that_is_set_twice, path_with_a_rule_about_the_tos,
	  endpoint_with_a_path)
