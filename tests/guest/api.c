/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Calls of rdmabroker.h that the product's own programs do not make, or not in this way.
 *
 *   api CHECK ADDR PORT    ADDR is an IPv4 address of an RDMA device of this host
 */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <poll.h>
#include <rdmabroker.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/patience.h"

#define DEADLINE_MS PATIENCE_MS

static struct rdmabroker *session;
static struct sockaddr_in addr;
static bool failed;

static const char *error_name(int r)
{
	return r >= 0 ? "0" : strerrorname_np(-r);
}

static void expect(const char *what, int r, int expected)
{
	printf("%s: %s%s%s\n", what, error_name(r), r < 0 ? ": " : "",
	       r < 0 ? rdmabroker_last_failure()->text : "");
	if (r == expected)
		return;
	printf("FAILED: %s is expected\n", error_name(expected));
	failed = true;
}

static struct rdmabroker_id *make_id(void)
{
	struct rdmabroker_id *id = NULL;
	int r;

	r = rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id);
	if (r == 0)
		return id;
	expect("create_id", r, 0);
	exit(1);
}

static void open_session(unsigned flags)
{
	const struct rdmabroker_options options = { .size = sizeof(options), .flags = flags };
	int r;

	r = rdmabroker_open(&options, &session);
	if (r == 0)
		return;
	printf("FAILED: open: %s\n", rdmabroker_last_failure()->text);
	exit(1);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The policy must allow to listen. */
static void check_reuseaddr_listen(void)
{
	struct rdmabroker_id *id;

	open_session(0);
	id = make_id();
	expect("set_option REUSEADDR", rdmabroker_set_option(id, RDMABROKER_OPTION_REUSEADDR, 1),
	       0);
	expect("bind_addr", rdmabroker_bind_addr(id, (struct sockaddr *)&addr), 0);
	expect("listen", rdmabroker_listen(id, 0), 0);
	rdmabroker_destroy_id(id);
}

static void check_arguments(void)
{
	struct sockaddr unknown = { .sa_family = AF_UNIX };
	struct sockaddr_ib nobodys = { .sib_family = AF_IB };
	struct rdmabroker_id *id, *none = NULL;

	open_session(0);
	id = make_id();
	expect("set_option 1000", rdmabroker_set_option(id, (enum rdmabroker_option)1000, 1),
	       -ENOSYS);
	expect("set_option TOS 256", rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 256),
	       -EINVAL);
	expect("set_option TOS -1", rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, -1), -EINVAL);
	expect("bind_addr AF_UNIX", rdmabroker_bind_addr(id, &unknown), -EINVAL);
	/* fe80::1 is the GID of no port here. */
	nobodys.sib_addr.sib_addr32[0] = htonl(0xfe800000);
	nobodys.sib_addr.sib_addr32[3] = htonl(1);
	nobodys.sib_sid = htobe64(0x0000000001061d42);
	nobodys.sib_sid_mask = UINT64_MAX;
	expect("bind_addr AF_IB", rdmabroker_bind_addr(id, (struct sockaddr *)&nobodys), -ENODEV);
	expect("resolve_route, no address", rdmabroker_resolve_route(id, 1000), -EINVAL);
	expect("disconnect, not connected", rdmabroker_disconnect(id), -EINVAL);
	expect("create_id, unknown port space",
	       rdmabroker_create_id(session, (enum rdmabroker_port_space)1, NULL, &none), -EINVAL);
	expect("bind_addr", rdmabroker_bind_addr(id, (struct sockaddr *)&addr), 0);
	expect("bind_addr again", rdmabroker_bind_addr(id, (struct sockaddr *)&addr), -EINVAL);
	rdmabroker_destroy_id(id);
}

static struct rdmabroker_event *await_event(void)
{
	struct pollfd p = { .fd = rdmabroker_get_fd(session), .events = POLLIN };
	int64_t deadline = now_ms() + DEADLINE_MS;
	struct rdmabroker_event *event;

	while (rdmabroker_get_event(session, 0, &event) == -EAGAIN) {
		int64_t left = deadline - now_ms();

		if (left <= 0 || poll(&p, 1, (int)left) <= 0) {
			printf("FAILED: no event came\n");
			exit(1);
		}
	}
	return event;
}

static void expect_done(const char *call, int status)
{
	struct rdmabroker_event *event = await_event();

	printf("event: %s %s %s\n", rdmabroker_event_str(event->type),
	       event->call ? event->call : "-", error_name(event->status));
	if (event->type != RDMABROKER_EVENT_DONE || !event->call ||
	    strcmp(event->call, call) != 0 || event->status != status) {
		printf("FAILED: DONE %s %s is expected\n", call, error_name(status));
		failed = true;
	}
	rdmabroker_free_event(event);
}

static void check_nonblock(void)
{
	struct rdmabroker_id *id;

	open_session(RDMABROKER_NONBLOCK);
	id = make_id();
	expect("bind_addr", rdmabroker_bind_addr(id, (struct sockaddr *)&addr), 0);
	expect("listen", rdmabroker_listen(id, 0), 0);
	expect("listen again", rdmabroker_listen(id, 0), 0);
	expect_done("create_id", 0);
	expect_done("bind_addr", 0);
	expect_done("listen", 0);
	expect_done("listen", -EINVAL);
	rdmabroker_destroy_id(id);
}

static void check_listen_twice(void)
{
	struct rdmabroker_id *a, *b;

	open_session(0);
	a = make_id();
	b = make_id();
	expect("bind_addr", rdmabroker_bind_addr(a, (struct sockaddr *)&addr), 0);
	expect("listen", rdmabroker_listen(a, 0), 0);
	expect("bind_addr again", rdmabroker_bind_addr(b, (struct sockaddr *)&addr), -EADDRINUSE);
	rdmabroker_destroy_id(a);
	expect("bind_addr once more", rdmabroker_bind_addr(b, (struct sockaddr *)&addr), 0);
	rdmabroker_destroy_id(b);
}

static void check_fork(void)
{
	struct rdmabroker_id *id;
	int status = -1;
	pid_t pid;

	open_session(0);
	id = make_id();
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(rdmabroker_bind_addr(id, (struct sockaddr *)&addr) == -EPERM ? 0 : 1);
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0) {
		printf("FAILED: bind_addr in a child is not refused with EPERM\n");
		failed = true;
	}
	expect("bind_addr in the parent", rdmabroker_bind_addr(id, (struct sockaddr *)&addr), 0);
	rdmabroker_destroy_id(id);
}

/* No id listens on the port. */
static void check_connect_wait(void)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param),
					       .retry_count = 7,
					       .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	const struct rdmabroker_event *event;
	struct ibv_context *verbs;
	struct rdmabroker_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;

	open_session(0);
	id = make_id();
	expect("resolve_addr_wait",
	       rdmabroker_resolve_addr_wait(id, NULL, (struct sockaddr *)&addr, DEADLINE_MS), 0);
	expect("resolve_route_wait", rdmabroker_resolve_route_wait(id, DEADLINE_MS), 0);
	expect("get_verbs", rdmabroker_get_verbs(id, &verbs), 0);
	if (failed)
		exit(1);
	pd = ibv_alloc_pd(verbs);
	cq = ibv_create_cq(verbs, 2, NULL, NULL, 0);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	expect("create_qp", rdmabroker_create_qp(id, pd, &attr), 0);
	expect("connect_wait", rdmabroker_connect_wait(id, &param, DEADLINE_MS), -ECONNREFUSED);
	event = rdmabroker_get_reject_event(id);
	if (!event || event->rejected_by != RDMABROKER_REJECTED_NO_LISTENER) {
		printf("FAILED: get_reject does not say that nobody listens\n");
		failed = true;
	}
	rdmabroker_destroy_qp(id);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	rdmabroker_destroy_id(id);
}

static void check_deadline(void)
{
	int64_t start = now_ms();
	struct rdmabroker_id *id;
	int r;

	open_session(0);
	id = make_id();
	/* No host has this address. */
	addr.sin_addr.s_addr = (addr.sin_addr.s_addr & htonl(0xffffff00)) | htonl(250);
	r = rdmabroker_resolve_addr_wait(id, NULL, (struct sockaddr *)&addr, 500);
	printf("resolve_addr_wait of nobody: %s after %lld ms\n", error_name(r),
	       (long long)(now_ms() - start));
	if (r == 0) {
		printf("FAILED: an error is expected\n");
		failed = true;
	}
	rdmabroker_destroy_id(id);
}

static const struct check {
	const char *name;
	void (*run)(void);
} checks[] = {
	{ "arguments", check_arguments },
	{ "connect-wait", check_connect_wait },
	{ "deadline", check_deadline },
	{ "fork", check_fork },
	{ "listen-twice", check_listen_twice },
	{ "nonblock", check_nonblock },
	{ "reuseaddr-listen", check_reuseaddr_listen },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	addr.sin_family = AF_INET;
	if (argc != 4 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1) {
		fprintf(stderr, "api CHECK ADDR PORT\n");
		return 2;
	}
	addr.sin_port = htons((uint16_t)atoi(argv[3]));

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (strcmp(checks[i].name, argv[1]) != 0)
			continue;
		alarm(PATIENCE_PROGRAM_S);
		checks[i].run();
		rdmabroker_close(session);
		return failed;
	}
	fprintf(stderr, "api: unknown check \"%s\"\n", argv[1]);
	return 2;
}
