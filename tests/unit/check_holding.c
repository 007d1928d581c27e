/* SPDX-License-Identifier: BSD-2-Clause */
#include <check.h>
#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/ctl/holding.h"
#include "tests/unit/nldev.h"
#include "tests/unit/unit.h"

/* What programs hold, by a netlink that the test plays, and real processes in /proc. */

#define FIRST 32768
#define LAST 60999

static struct holding holding;

static void set_up(void)
{
	memset(&kernel, 0, sizeof(kernel));
	strcpy(kernel.name, "rxe0");
	kernel.n_ports = 1;
	kernel.n_pieces = 1;
}

static void tear_down(void)
{
	holding_done(&holding);
}

static void add_id(struct id id)
{
	kernel.ids[0][kernel.n_ids[0]++] = id;
}

static void read_all(void)
{
	ck_assert_ptr_null(holding_read(&holding, FIRST, LAST));
}

static const struct rdmabroker_refusal *find(const char *operation)
{
	for (size_t i = 0; i < holding.refusals.n; i++)
		if (strcmp(holding.refusals.list[i].operation, operation) == 0)
			return &holding.refusals.list[i];
	return NULL;
}

static uint32_t peer_of(const struct rdmabroker_refusal *row)
{
	return ntohl(((const struct sockaddr_in *)&row->peer)->sin_addr.s_addr);
}

START_TEST(a_listener)
{
	const struct rdmabroker_refusal *row;

	add_id((struct id){ (uint32_t)getpid(), NULL, LISTEN, "10.9.0.1", NULL, 0 });
	read_all();
	ck_assert_uint_eq(holding.refusals.n, 3);
	ck_assert_uint_eq(find("session")->who.uid, geteuid());
	ck_assert_uint_gt(find("session")->who.n_gids, 0);
	ck_assert_str_eq(find("session")->outcome, "no-rule");
	ck_assert_str_eq(find("device")->device, "rxe0");
	row = find("listen");
	ck_assert_uint_eq(row->port, 7471);
	ck_assert(!row->any_port);
	ck_assert_int_eq(row->peer.ss_family, AF_UNSPEC);
	ck_assert_uint_eq(holding.n_holders, 1);
	ck_assert_uint_eq(holding.holders[0].n_ids, 1);
}
END_TEST

/* The first ones, by number, with the effective primary one. */
START_TEST(groups_of_a_holder)
{
	gid_t groups[20];
	const struct rdmabroker_refusal *row;

	if (geteuid() != 0) {
		fprintf(stderr, "skipped: only root can change its groups\n");
		return;
	}
	for (gid_t i = 0; i < 20; i++)
		groups[i] = 40 - i;
	ck_assert_int_eq(setgroups(20, groups), 0);
	ck_assert_int_eq(setegid(23), 0);
	add_id((struct id){ (uint32_t)getpid(), NULL, LISTEN, "10.9.0.1", NULL, 0 });
	read_all();
	row = find("session");
	ck_assert_uint_eq(row->who.n_gids, HOLDER_GIDS);
	for (gid_t i = 0; i < HOLDER_GIDS; i++)
		ck_assert_uint_eq(row->who.gids[i], 21 + i);
	ck_assert_int_eq(setegid(3), 0);
	holding_done(&holding);
	read_all();
	row = find("session");
	ck_assert_uint_eq(row->who.n_gids, HOLDER_GIDS);
	ck_assert_uint_eq(row->who.gids[0], 3);
	ck_assert_uint_eq(row->who.gids[15], 35);
}
END_TEST

/* The kernel has chosen the port, so the next time it is another. */
START_TEST(a_listener_on_any_port)
{
	add_id((struct id){ (uint32_t)getpid(), NULL, LISTEN, "10.9.0.1:32768", NULL, 0 });
	read_all();
	ck_assert(find("listen")->any_port);
	ck_assert_uint_eq(find("listen")->port, 0);
}
END_TEST

/* Both have ports that the kernel could have chosen: the listener of another process tells who has accepted. */
START_TEST(who_has_connected)
{
	pid_t pid = start_process("other");
	const struct rdmabroker_refusal *row;

	add_id((struct id){ (uint32_t)pid, NULL, LISTEN, "10.9.0.1:40000", NULL, 0 });
	add_id((struct id){ (uint32_t)getpid(), NULL, CONNECT, "10.9.0.1:40000", "10.9.0.2:50000",
			    17 });
	read_all();
	row = find("accept");
	ck_assert_ptr_nonnull(row);
	ck_assert(row->any_port);
	ck_assert_uint_eq(peer_of(row), 0x0a090002);
	ck_assert_uint_eq(row->peer_prefix, 32);
	ck_assert_ptr_null(find("connect"));
	stop_process(pid);
}
END_TEST

START_TEST(ports_tell_who_has_connected)
{
	const struct rdmabroker_refusal *row;

	add_id((struct id){ (uint32_t)getpid(), NULL, CONNECT, "10.9.0.1:50000", "10.9.0.2:4420",
			    17 });
	add_id((struct id){ (uint32_t)getpid(), NULL, CONNECT, "10.9.0.1:4421", "10.9.0.3:50000",
			    18 });
	/* Bound, not more. */
	add_id((struct id){ (uint32_t)getpid(), NULL, ADDR_BOUND, "10.9.0.1", "0.0.0.0", 0 });
	read_all();
	row = find("connect");
	ck_assert_uint_eq(row->port, 4420);
	ck_assert_uint_eq(peer_of(row), 0x0a090002);
	row = find("accept");
	ck_assert_uint_eq(row->port, 4421);
	ck_assert_uint_eq(peer_of(row), 0x0a090003);
	ck_assert_uint_eq(holding.refusals.n, 3 * 2 + 2);
}
END_TEST

/* Programs of verbs alone have no ids. */
START_TEST(queue_pairs)
{
	kernel.qps[kernel.n_qps++] = (struct qp){ .qpn = 1, .port = 1, .kernel = "ib_core" };
	kernel.qps[kernel.n_qps++] = (struct qp){ .qpn = 17, .port = 1, .tid = (uint32_t)getpid() };
	read_all();
	ck_assert_uint_eq(holding.refusals.n, 2);
	ck_assert_str_eq(find("device")->device, "rxe0");
	ck_assert_ptr_nonnull(find("session"));
	ck_assert_uint_eq(holding.n_holders, 1);
	ck_assert_uint_eq(holding.holders[0].n_qps, 1);
}
END_TEST

START_TEST(modules_and_the_daemon)
{
	pid_t pid = start_process("rdmabrokerd");

	add_id((struct id){ 0, "nvmet_rdma", LISTEN, "10.9.0.1:4420", NULL, 0 });
	add_id((struct id){ 0, "nvmet_rdma", CONNECT, "10.9.0.1:4420", "10.9.0.2:50000", 7 });
	add_id((struct id){ 0, "rpcrdma", CONNECT, "10.9.0.1:50001", "10.9.0.2:20049", 8 });
	add_id((struct id){ (uint32_t)pid, NULL, LISTEN, "10.9.0.1", NULL, 0 });
	add_id((struct id){ 0, NULL, LISTEN, "10.9.0.1", NULL, 0 });
	kernel.qps[kernel.n_qps++] = (struct qp){ .qpn = 19, .port = 1, .kernel = "nvmet_rdma" };
	read_all();
	ck_assert_uint_eq(holding.refusals.n, 0);
	ck_assert_uint_eq(holding.n_nameless, 1);
	ck_assert_uint_eq(holding.n_holders, 3);
	ck_assert_int_eq(holding.holders[0].who.pid, 0);
	ck_assert_str_eq(holding.holders[0].name, "nvmet_rdma");
	ck_assert_uint_eq(holding.holders[0].n_ids, 2);
	ck_assert_uint_eq(holding.holders[0].n_qps, 1);
	ck_assert_str_eq(holding.holders[1].name, "rpcrdma");
	ck_assert_int_eq(holding.holders[2].who.pid, pid);
	stop_process(pid);
}
END_TEST

START_TEST(a_failure_is_told)
{
	const char *failed;

	kernel.qp_error = -EPERM;
	add_id((struct id){ (uint32_t)getpid(), NULL, LISTEN, "10.9.0.1", NULL, 0 });
	failed = holding_read(&holding, FIRST, LAST);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_str_eq(failed, "list the QPs");
}
END_TEST

UNIT_MAIN("holding", set_up, tear_down, a_listener, groups_of_a_holder, a_listener_on_any_port,
	  who_has_connected, ports_tell_who_has_connected, queue_pairs, modules_and_the_daemon,
	  a_failure_is_told)
