/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "proto/addr.h"
#include "proto/pkey.h"
#include "tests/unit/check_policy_question.h"

static void ask(enum policy_operation operation)
{
	question = (struct policy_question){
		.operation = operation,
		.uid = 1000,
		.gids = gids,
		.n_gids = 3,
		.port = -1,
	};
}

static void set_up(void)
{
	policy_set_up();
	ask(POLICY_SESSION);
}

/* Checks the decision about QUESTION. LINE: the line of the verdict's rule; 0: there is none. */
static void assert_answer(enum policy_answer answer, unsigned line)
{
	memset(&verdict, 0xff, sizeof(verdict));
	policy_decide(policy, &question, &verdict);
	ck_assert_int_eq(verdict.answer, answer);
	if (line) {
		ck_assert_ptr_nonnull(verdict.rule);
		ck_assert_uint_eq(verdict.rule->line, line);
	} else {
		ck_assert_ptr_null(verdict.rule);
	}
	ck_assert((verdict.reason != NULL) == (answer == POLICY_REJECT));
}

START_TEST(nothing_is_allowed_by_default)
{
	load("# nothing\n");
	for (int early = 0; early < 2; early++) {
		for (int i = 0; i < _POLICY_OPERATION_MAX; i++) {
			ask(i);
			question.early = early;
			assert_answer(POLICY_REJECT, 0);
			ck_assert_str_eq(verdict.reason, "no-rule");
		}
	}
}
END_TEST

START_TEST(the_first_match_decides)
{
	load("reject session user 5\n"
	     "allow session user 1000\n"
	     "reject session\n"
	     "allow session\n");
	assert_answer(POLICY_ALLOW, 2);
	question.uid = 5;
	assert_answer(POLICY_REJECT, 1);
	question.uid = 6;
	assert_answer(POLICY_REJECT, 3);
}
END_TEST

START_TEST(reasons)
{
	load("reject session user 1 reason \"not you\"\nreject session user 2");
	question.uid = 1;
	assert_answer(POLICY_REJECT, 1);
	ck_assert_str_eq(verdict.reason, "not you");
	question.uid = 2;
	assert_answer(POLICY_REJECT, 2);
	ck_assert_str_eq(verdict.reason, "denied");
	question.uid = 3;
	assert_answer(POLICY_REJECT, 0);
	ck_assert_str_eq(verdict.reason, "no-rule");
}
END_TEST

START_TEST(users_and_groups)
{
	load("allow session user 7,1000 group 5,300\nallow session group 200");
	assert_answer(POLICY_ALLOW, 1);
	question.n_gids = 2;
	assert_answer(POLICY_ALLOW, 2);
	question.n_gids = 1;
	assert_answer(POLICY_REJECT, 0);
	question.gids = NULL;
	question.n_gids = 0;
	assert_answer(POLICY_REJECT, 0);
	load("allow session user root");
	assert_answer(POLICY_REJECT, 0);
	question.uid = 0;
	assert_answer(POLICY_ALLOW, 1);
}
END_TEST

/* Nobody gets past a reject rule by having so many groups that they cannot be told. */
START_TEST(groups_that_are_not_known)
{
	load("reject session group 7\nallow session user 1000");
	assert_answer(POLICY_ALLOW, 2);
	question.too_many_gids = true;
	assert_answer(POLICY_REJECT, 1);
	load("allow session group 100\nallow session user 1000");
	assert_answer(POLICY_ALLOW, 2);
	question.too_many_gids = false;
	assert_answer(POLICY_ALLOW, 1);
}
END_TEST

START_TEST(ports)
{
	load("allow listen port 5,1000-1010,65535");
	ask(POLICY_LISTEN);
	for (int port = 1; port < 65536; port++) {
		bool in = port == 5 || (port >= 1000 && port <= 1010) || port == 65535;

		question.port = port;
		assert_answer(in ? POLICY_ALLOW : POLICY_REJECT, in);
	}
	/* Port 0 means any free port, which is not known yet. */
	question.port = 0;
	assert_answer(POLICY_REJECT, 0);
	question.early = true;
	assert_answer(POLICY_DEFER, 1);
}
END_TEST

/* The bit of full members makes no difference. */
START_TEST(partitions)
{
	load("allow connect pkey 0x8001,7-0x8009,0xffff");
	ask(POLICY_CONNECT);
	for (int named = 0; named < 2; named++) {
		question.names_pkey = named;
		for (int pkey = 1; pkey <= PKEY_DEFAULT; pkey++) {
			bool in = pkey == 1 || (pkey >= 7 && pkey <= 9) || pkey == PKEY_DEFAULT;

			question.pkey = (uint16_t)pkey;
			assert_answer(in ? POLICY_ALLOW : POLICY_REJECT, in);
		}
	}
	question.names_pkey = false;
	question.pkey = 0;
	assert_answer(POLICY_REJECT, 0);
	question.early = true;
	assert_answer(POLICY_DEFER, 1);
	question.early = false;
	load("reject connect pkey 5\nallow connect");
	assert_answer(POLICY_REJECT, 1);
	question.pkey = 6;
	assert_answer(POLICY_ALLOW, 2);
}
END_TEST

START_TEST(partitions_that_are_named)
{
	load("reject connect port 81\nallow connect\nallow any pkey 5\nwarn listen port 82\nallow any");
	for (int i = POLICY_LISTEN; i <= POLICY_JOIN; i++) {
		ask(i);
		question.port = 80;
		question.pkey = 5;
		assert_answer(POLICY_ALLOW, i == POLICY_CONNECT ? 2 : 3);
		question.names_pkey = true;
		assert_answer(POLICY_ALLOW, 3);
		question.pkey = 6;
		assert_answer(POLICY_REJECT, 0);
		question.names_pkey = false;
		assert_answer(POLICY_ALLOW, i == POLICY_CONNECT ? 2 : 5);
	}
	/* A reject rule without 'pkey' covers all partitions, and so does a warn rule, as the kernel. */
	ask(POLICY_CONNECT);
	question.port = 81;
	question.pkey = 5;
	question.names_pkey = true;
	assert_answer(POLICY_REJECT, 1);
	ask(POLICY_LISTEN);
	question.port = 82;
	question.pkey = 6;
	question.names_pkey = true;
	assert_answer(POLICY_ALLOW, 4);
}
END_TEST

static void assert_partition(enum policy_operation operation, const struct sockaddr *local,
			     const struct sockaddr *peer, uint16_t pkey, uint16_t path_pkey,
			     uint16_t expected, bool named)
{
	ask(operation);
	question.local = local;
	question.peer = peer;
	policy_set_partition(&question, pkey, path_pkey);
	ck_assert_uint_eq(question.pkey, expected);
	ck_assert_int_eq(question.names_pkey, named);
}

/* An IP address belongs to a network device, and so to its partition. A GID belongs to none. */
START_TEST(what_names_a_partition)
{
	struct sockaddr_ib none = { .sib_family = AF_IB };
	struct sockaddr_ib common = { .sib_family = AF_IB, .sib_pkey = htons(0xffff) };
	struct sockaddr_ib other = { .sib_family = AF_IB, .sib_pkey = htons(0x8005) };
	const struct sockaddr *ip = address("10.1.0.1"), *n = (struct sockaddr *)&none,
			      *c = (struct sockaddr *)&common, *o = (struct sockaddr *)&other;
	const uint16_t usual = PKEY_DEFAULT;

	assert_partition(POLICY_CONNECT, NULL, ip, 0, 0, 0, false);
	assert_partition(POLICY_CONNECT, ip, ip, 5, 0, 5, false);
	assert_partition(POLICY_CONNECT, ip, ip, 5, 5, 5, false);
	assert_partition(POLICY_CONNECT, ip, ip, 5, usual, usual, true);
	assert_partition(POLICY_CONNECT, ip, ip, usual, 6, 6, true);
	assert_partition(POLICY_CONNECT, NULL, n, 0, 0, 0, false);
	assert_partition(POLICY_CONNECT, NULL, c, 0, 0, usual, false);
	assert_partition(POLICY_CONNECT, NULL, o, 0, 0, 5, true);
	/* The kernel takes the P_Key of the own address, if there is one. */
	assert_partition(POLICY_CONNECT, c, o, 0, 0, usual, false);
	assert_partition(POLICY_CONNECT, n, o, 0, 0, 5, true);
	assert_partition(POLICY_CONNECT, o, c, 0, 0, 5, true);
	assert_partition(POLICY_CONNECT, o, o, 5, 6, 6, true);
	assert_partition(POLICY_LISTEN, o, NULL, 0, 0, 5, true);
	assert_partition(POLICY_LISTEN, c, NULL, 0, 0, usual, false);
	assert_partition(POLICY_ACCEPT, c, c, 5, 0, 5, true);
	assert_partition(POLICY_ACCEPT, ip, ip, 5, 0, 5, false);
	/* A group is joined in the partition of the id. */
	assert_partition(POLICY_JOIN, c, o, usual, 0, usual, false);
	assert_partition(POLICY_JOIN, o, c, 5, 0, 5, true);
}
END_TEST

START_TEST(addresses_and_sets)
{
	load("set a = { 10.1.0.0/16, fd00::/64 }\n"
	     "set b = { @a, 10.2.0.1 }\n"
	     "allow connect local @a peer @b\n"
	     "allow connect peer 192.168.0.0/16\n");
	ask(POLICY_CONNECT);
	question.local = address("10.1.2.3");
	question.peer = address("fd00::5");
	assert_answer(POLICY_ALLOW, 3);
	question.peer = address("::ffff:10.2.0.1");
	assert_answer(POLICY_ALLOW, 3);
	question.peer = address("10.2.0.2");
	assert_answer(POLICY_REJECT, 0);
	question.local = address("::ffff:10.1.2.3");
	question.peer = address("10.2.0.1");
	assert_answer(POLICY_ALLOW, 3);
	question.local = NULL;
	assert_answer(POLICY_REJECT, 0);
	question.peer = address("192.168.3.4");
	assert_answer(POLICY_ALLOW, 4);
}
END_TEST

START_TEST(wildcard_addresses_are_unknown)
{
	static const char *const wildcards[] = { "0.0.0.0", "::", "::ffff:0.0.0.0" };

	ask(POLICY_LISTEN);
	for (size_t i = 0; i < 3; i++) {
		question.local = address(wildcards[i]);
		load("allow listen local 0.0.0.0/0\nallow listen local ::/0");
		question.early = false;
		assert_answer(POLICY_REJECT, 0);
		question.early = true;
		assert_answer(POLICY_DEFER, 1);

		load("reject listen local 10.0.0.0/8\nallow listen");
		question.early = false;
		assert_answer(POLICY_REJECT, 1);
		question.early = true;
		assert_answer(POLICY_DEFER, 1);
	}
}
END_TEST

START_TEST(addresses_of_other_families_are_unknown)
{
	struct sockaddr_storage ib = { .ss_family = 27 /* AF_IB */ };

	load("reject connect peer 10.0.0.0/8\nallow connect ps ib");
	ask(POLICY_CONNECT);
	question.peer = (struct sockaddr *)&ib;
	question.port_space = RDMA_PS_IB;
	assert_answer(POLICY_REJECT, 1);
	load("allow connect peer 10.0.0.0/8\nallow connect ps ib");
	assert_answer(POLICY_ALLOW, 2);
	/* The wildcard is no GID. */
	load("reject connect peer gid:fe80::/64\nallow connect ps ib");
	assert_answer(POLICY_REJECT, 1);
}
END_TEST

/* The facts of a host that only the other kind of address would tell are not known. */
START_TEST(gids_are_no_ip_addresses)
{
	struct sockaddr_storage gid, other, ip;

	ck_assert(addr_parse(&gid, "gid:fe80::1", 7471));
	ck_assert(addr_parse(&other, "gid:fd00::1", 7471));
	ck_assert(addr_parse(&ip, "fe80::1", 7471));
	ask(POLICY_CONNECT);

	load("allow connect peer gid:fe80::/64\nallow connect peer fe80::/64");
	question.peer = (struct sockaddr *)&gid;
	assert_answer(POLICY_ALLOW, 1);
	question.peer = (struct sockaddr *)&ip;
	assert_answer(POLICY_ALLOW, 2);
	question.peer = (struct sockaddr *)&other;
	assert_answer(POLICY_REJECT, 0);

	load("reject connect peer gid:fd00::/16\nallow connect");
	question.peer = (struct sockaddr *)&gid;
	assert_answer(POLICY_ALLOW, 2);
	question.peer = (struct sockaddr *)&ip;
	assert_answer(POLICY_REJECT, 1);

	load("reject connect peer 10.0.0.0/8\nallow connect");
	question.peer = (struct sockaddr *)&gid;
	assert_answer(POLICY_REJECT, 1);

	load("set both = { 10.0.0.0/8, gid:fe80::/64 }\nreject connect peer @both\nallow connect");
	assert_answer(POLICY_REJECT, 2);
	question.peer = (struct sockaddr *)&other;
	assert_answer(POLICY_REJECT, 2);
	question.peer = (struct sockaddr *)&ip;
	assert_answer(POLICY_REJECT, 2);
	load("set both = { 10.0.0.0/8, gid:fe80::/64 }\nallow connect peer @both");
	question.peer = (struct sockaddr *)&gid;
	assert_answer(POLICY_ALLOW, 2);
	question.peer = (struct sockaddr *)&other;
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

START_TEST(device_patterns)
{
	load("allow device device rxe*\nallow device device mlx5_[0-3]");
	ask(POLICY_DEVICE);
	assert_answer(POLICY_REJECT, 0);
	question.device = "rxe";
	assert_answer(POLICY_ALLOW, 1);
	question.device = "rxe_eth0";
	assert_answer(POLICY_ALLOW, 1);
	question.device = "xrxe";
	assert_answer(POLICY_REJECT, 0);
	question.device = "mlx5_2";
	assert_answer(POLICY_ALLOW, 2);
	question.device = "mlx5_22";
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

START_TEST(each_port_space)
{
	load("allow listen ps tcp\nallow listen ps udp\nallow listen ps ib\nallow listen ps ipoib");
	ask(POLICY_LISTEN);
	assert_answer(POLICY_REJECT, 0);
	question.port_space = RDMA_PS_TCP;
	assert_answer(POLICY_ALLOW, 1);
	question.port_space = RDMA_PS_UDP;
	assert_answer(POLICY_ALLOW, 2);
	question.port_space = RDMA_PS_IB;
	assert_answer(POLICY_ALLOW, 3);
	question.port_space = RDMA_PS_IPOIB;
	assert_answer(POLICY_ALLOW, 4);
	question.port_space = 1;
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

START_TEST(units)
{
	load("allow session unit a.service\nallow session unit user@*.service\n"
	     "allow session unit \"dev-\\\\\\\\x2dd.device\"\nreject session unit *");
	question.workload[WORKLOAD_UNIT] = "a.service";
	assert_answer(POLICY_ALLOW, 1);
	question.workload[WORKLOAD_UNIT] = "user@1000.service";
	assert_answer(POLICY_ALLOW, 2);
	question.workload[WORKLOAD_UNIT] = "dev-\\x2dd.device";
	assert_answer(POLICY_ALLOW, 3);
	question.workload[WORKLOAD_UNIT] = "a.service2";
	assert_answer(POLICY_REJECT, 4);
	/* The client is in no unit, so not even '*' matches. */
	question.workload[WORKLOAD_UNIT] = "";
	assert_answer(POLICY_REJECT, 0);
	/* The unit is not known, so a reject rule that possibly matches decides. */
	question.workload[WORKLOAD_UNIT] = NULL;
	assert_answer(POLICY_REJECT, 4);
	question.early = true;
	assert_answer(POLICY_DEFER, 1);
}
END_TEST

START_TEST(containers)
{
	load("allow session container web\nallow session container user-1000/*\n"
	     "allow session container *\nallow session pod 0a1b*\nallow session job 7\n"
	     "reject session container user-*/*\nallow session job *");
	for (int i = 0; i < _WORKLOAD_MAX; i++)
		question.workload[i] = "";
	assert_answer(POLICY_REJECT, 0);
	question.workload[WORKLOAD_CONTAINER] = "web";
	assert_answer(POLICY_ALLOW, 1);
	question.workload[WORKLOAD_CONTAINER] = "user-1000/web";
	assert_answer(POLICY_ALLOW, 2);
	question.workload[WORKLOAD_CONTAINER] = "web2";
	assert_answer(POLICY_ALLOW, 3);
	/* A wildcard matches no slash, so "*" does not match what a user has named. */
	question.workload[WORKLOAD_CONTAINER] = "user-1001/web";
	assert_answer(POLICY_REJECT, 6);
	question.workload[WORKLOAD_CONTAINER] = "";
	question.workload[WORKLOAD_POD] = "0a1b-2c";
	assert_answer(POLICY_ALLOW, 4);
	question.workload[WORKLOAD_POD] = "user-5/0a1b";
	assert_answer(POLICY_REJECT, 0);
	question.workload[WORKLOAD_JOB] = "7";
	assert_answer(POLICY_ALLOW, 5);
	question.workload[WORKLOAD_JOB] = "77";
	assert_answer(POLICY_ALLOW, 7);
	/* Not known: an allow rule does not match, and a reject rule does. */
	question.workload[WORKLOAD_CONTAINER] = NULL;
	assert_answer(POLICY_REJECT, 6);
	question.early = true;
	assert_answer(POLICY_DEFER, 1);
}
END_TEST

START_TEST(control_groups)
{
	load("allow session cgroup /system.slice/a.service\n"
	     "allow session cgroup /machine.slice/libpod-*.scope\n"
	     "allow session cgroup /user.slice/*/user@1000.service\nreject session cgroup /");
	question.workload[WORKLOAD_CGROUP] = "/system.slice/a.service";
	assert_answer(POLICY_ALLOW, 1);
	/* What is below matches too, but not what has a longer name. */
	question.workload[WORKLOAD_CGROUP] = "/system.slice/a.service/below/it";
	assert_answer(POLICY_ALLOW, 1);
	question.workload[WORKLOAD_CGROUP] = "/system.slice/a.service2";
	assert_answer(POLICY_REJECT, 4);
	question.workload[WORKLOAD_CGROUP] = "/machine.slice/libpod-12.scope/container";
	assert_answer(POLICY_ALLOW, 2);
	question.workload[WORKLOAD_CGROUP] = "/user.slice/u.slice/user@1000.service/app.slice";
	assert_answer(POLICY_ALLOW, 3);
	/* A wildcard matches no slash. */
	question.workload[WORKLOAD_CGROUP] = "/user.slice/a/b/user@1000.service";
	assert_answer(POLICY_REJECT, 4);
	question.workload[WORKLOAD_CGROUP] = "/x/machine.slice/libpod-12.scope";
	assert_answer(POLICY_REJECT, 4);
	question.workload[WORKLOAD_CGROUP] = NULL;
	assert_answer(POLICY_REJECT, 4);
}
END_TEST

START_TEST(private_data)
{
	load("allow accept data \"NVMe\"\nallow accept data 0x00ff\nreject accept data 0x00");
	ask(POLICY_ACCEPT);
	assert_answer(POLICY_REJECT, 3);
	question.early = true;
	assert_answer(POLICY_DEFER, 1);
	/* The request is known to have no private data. */
	question.knows_data = true;
	assert_answer(POLICY_REJECT, 0);
	question.early = false;
	assert_answer(POLICY_REJECT, 0);
	question.data = "NVMe and more";
	question.data_len = 13;
	assert_answer(POLICY_ALLOW, 1);
	question.data_len = 4;
	assert_answer(POLICY_ALLOW, 1);
	question.data_len = 3;
	assert_answer(POLICY_REJECT, 0);
	question.data = "\0\xff\0";
	assert_answer(POLICY_ALLOW, 2);
	question.data = "\0\xfe\0";
	assert_answer(POLICY_REJECT, 3);
}
END_TEST

START_TEST(administration)
{
	load("reject admin user 1000\nallow admin group 200\nallow connect peer 10.0.0.0/8");
	ask(POLICY_ADMIN);
	assert_answer(POLICY_REJECT, 1);
	question.uid = 5;
	assert_answer(POLICY_ALLOW, 2);
	question.n_gids = 1;
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

/* A rule for "any" allows neither observe nor admin, and a rule for observe does not allow admin. */
START_TEST(observe_and_admin_are_always_named)
{
	load("allow any");
	ask(POLICY_OBSERVE);
	assert_answer(POLICY_REJECT, 0);
	ask(POLICY_ADMIN);
	assert_answer(POLICY_REJECT, 0);
	load("reject any\nallow observe user 1000");
	ask(POLICY_OBSERVE);
	assert_answer(POLICY_ALLOW, 2);
	ask(POLICY_ADMIN);
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

START_TEST(any_covers_the_operations_that_its_matches_fit)
{
	load("allow any user 1000 tos 8 backlog 5");
	for (int i = 0; i < POLICY_OBSERVE; i++) {
		ask(i);
		assert_answer(POLICY_ALLOW, 1);
	}

	load("reject any peer 10.0.0.0/8\nallow any");
	for (int i = 0; i < POLICY_OBSERVE; i++) {
		bool has_peer = i == POLICY_CONNECT || i == POLICY_ACCEPT || i == POLICY_JOIN;

		ask(i);
		assert_answer(has_peer ? POLICY_REJECT : POLICY_ALLOW, has_peer ? 1 : 2);
	}

	load("reject any port 5 device x\nallow any");
	for (int i = 0; i < POLICY_OBSERVE; i++) {
		bool fits = i == POLICY_LISTEN || i == POLICY_CONNECT || i == POLICY_ACCEPT;

		ask(i);
		assert_answer(fits ? POLICY_REJECT : POLICY_ALLOW, fits ? 1 : 2);
	}
}
END_TEST

START_TEST(early_answers)
{
	ask(POLICY_CONNECT);
	question.early = true;
	question.port = 80;

	load("allow connect");
	assert_answer(POLICY_ALLOW, 1);
	load("allow connect peer 10.0.0.0/8");
	assert_answer(POLICY_DEFER, 1);
	/* The request will be allowed, but the settings are not certain. */
	load("allow connect peer 10.0.0.0/8 tos 1\nallow connect");
	assert_answer(POLICY_DEFER, 1);
	load("reject connect peer 10.0.0.0/8\nallow connect");
	assert_answer(POLICY_DEFER, 1);
	load("reject connect peer 10.0.0.0/8\nallow connect peer 11.0.0.0/8\nreject connect");
	assert_answer(POLICY_DEFER, 1);
	/* The request is rejected in any case. */
	load("reject connect peer 10.0.0.0/8");
	assert_answer(POLICY_REJECT, 1);
	load("reject connect peer 10.0.0.0/8\nreject connect\nallow connect");
	assert_answer(POLICY_REJECT, 1);
	load("reject connect peer 10.0.0.0/8\nallow connect port 81\nreject connect device x");
	assert_answer(POLICY_REJECT, 1);
	/* A match that certainly fails excludes the rule, whatever else is unknown. */
	load("allow connect peer 10.0.0.0/8 port 81 device x");
	assert_answer(POLICY_REJECT, 0);
}
END_TEST

START_TEST(final_answers)
{
	ask(POLICY_CONNECT);
	load("allow connect peer 10.0.0.0/8\nallow connect user 1000");
	assert_answer(POLICY_ALLOW, 2);
	load("allow connect user 1000 peer 10.0.0.0/8\nreject connect user 1000 device x\n"
	     "allow connect");
	assert_answer(POLICY_REJECT, 2);
}
END_TEST

UNIT_MAIN("policy_decide", set_up, policy_tear_down, nothing_is_allowed_by_default,
	  the_first_match_decides, reasons, users_and_groups, groups_that_are_not_known, ports,
	  partitions, partitions_that_are_named, what_names_a_partition, addresses_and_sets,
	  wildcard_addresses_are_unknown, addresses_of_other_families_are_unknown,
	  gids_are_no_ip_addresses, device_patterns, each_port_space, units, containers,
	  control_groups, private_data, administration, observe_and_admin_are_always_named,
	  any_covers_the_operations_that_its_matches_fit, early_answers, final_answers)
