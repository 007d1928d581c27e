/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/bench/connect/worker.h"
#include "tests/bench/stats.h"

struct worker worker;

static const char *name; /* for fail() */

void fail(int r, const char *fmt, ...)
{
	const char *words = r < 0 ? worker.backend->get_failure() : NULL;
	va_list args;

	fprintf(stderr, "rdmabroker-bench: %s: ", name);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "%s%s\n", r < 0 ? ": " : "", words ?: r < 0 ? strerror(-r) : "");
	_exit(1);
}

const char *read_order(unsigned *n)
{
	static char line[64], verb[16], qps[16];
	ssize_t len = read(STDIN_FILENO, line, sizeof(line) - 1);

	/* The leader sends no second order before the answer to the first. */
	if (len <= 0)
		exit(0);
	line[len] = 0;
	if (sscanf(line, "%15s %15s %u", verb, qps, n) > 1)
		worker.moves_qps = strcmp(qps, "program") == 0;
	return verb;
}

uint64_t get_cpu_ns(void)
{
	struct timespec ts;

	/* This clock is more precise than getrusage(). */
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void move_qp(void *id, struct ibv_qp *qp, enum ibv_qp_state state, uint64_t times[2])
{
	struct ibv_qp_attr attr = { .qp_state = state };
	uint64_t start = now_ns(), middle;
	int mask, r;

	r = worker.backend->init_qp_attr(id, &attr, &mask);
	if (r < 0)
		fail(r, "QP attributes for state %d", state);
	middle = now_ns();
	r = ibv_modify_qp(qp, &attr, mask);
	if (r != 0)
		fail(-r, "move the QP to state %d", state);
	if (times) {
		times[0] = middle - start;
		times[1] = now_ns() - middle;
	}
}

static struct ibv_qp_init_attr describe_qp(void)
{
	return (struct ibv_qp_init_attr){
		.send_cq = worker.cq,
		.recv_cq = worker.cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
}

struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr attr = describe_qp();
	struct ibv_qp *qp = ibv_create_qp(worker.pd, &attr);

	if (!qp)
		fail(-errno, "create a QP");
	return qp;
}

void give_qp(void *id)
{
	struct ibv_qp_init_attr attr = describe_qp();
	int r = worker.backend->create_qp(id, &attr);

	if (r < 0)
		fail(r, "create a QP for an id");
}

static bool has_dropin(void)
{
	Dl_info info;

	return dladdr((void *)rdma_create_event_channel, &info) &&
	       strstr(info.dli_fname, "librdmabroker-rdmacm");
}

static struct sockaddr_in parse_address(const char *text, const char *port)
{
	struct sockaddr_in ret = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (inet_pton(AF_INET, text, &ret.sin_addr) != 1)
		fail(0, "%s is no IPv4 address", text);
	return ret;
}

/* Arguments: WAY server ADDRESS PORT, or WAY client ADDRESS PORT OWN-ADDRESS BARRIER */
int main(int argc, char **argv)
{
	struct ibv_context *verbs;
	bool is_server = argc == 5;
	struct sockaddr_in *own = is_server ? &worker.server : &worker.client;
	void *id;
	int r;

	if (argc != 5 && argc != 7)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	name = argv[1];
	worker.backend = strcmp(name, "library") == 0 ? &library_backend : &direct_backend;
	worker.server = parse_address(argv[3], argv[4]);
	if (!is_server) {
		worker.client = parse_address(argv[5], "0");
		worker.barrier = atoi(argv[6]);
	}
	if (has_dropin() != (strcmp(name, "dropin") == 0))
		fail(0, "the drop-in is %sloaded", has_dropin() ? "" : "not ");
	r = worker.backend->open((struct sockaddr *)own, &id, &verbs);
	if (r < 0)
		fail(r, "open the %s's end", argv[2]);
	worker.pd = ibv_alloc_pd(verbs);
	worker.cq = worker.pd ? ibv_create_cq(verbs, 16, NULL, NULL, 0) : NULL;
	if (!worker.cq)
		fail(-errno, "PD and CQ");
	r = is_server ? worker.backend->listen(id) : 0;
	if (r < 0)
		fail(r, "listen");
	printf("ready %s\n", ibv_get_device_name(verbs->device));
	fflush(stdout);
	is_server ? run_server() : run_client();
}
