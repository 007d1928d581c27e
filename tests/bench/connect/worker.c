/* SPDX-License-Identifier: BSD-2-Clause */

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/connect/bench.h"

struct worker worker;

uint64_t cpu_ns(void)
{
	struct timespec ts;

	/* This clock is more precise than getrusage(). */
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void fail(int r, const char *fmt, ...)
{
	char *text = worker.report->error;
	size_t size = sizeof(worker.report->error);
	const char *words = worker.backend->get_failure();
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, size, fmt, args);
	va_end(args);
	if (r < 0 && n >= 0 && (size_t)n < size)
		snprintf(text + n, size - (size_t)n, ": %s", words ? words : strerror(-r));
	/* The leader detects that the socket is closed. */
	_exit(1);
}

void answer(void)
{
	char done = 0;

	if (send(CONTROL_FD, &done, 1, MSG_NOSIGNAL) < 0)
		_exit(1);
}

void await_barrier(void)
{
	uint64_t one;

	if (read(BARRIER_FD, &one, sizeof(one)) != sizeof(one))
		fail(-errno, "wait for the others");
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
		fail(0, "move the QP to state %d: %s", state, strerror(r));
	if (times) {
		times[0] = middle - start;
		times[1] = now_ns() - middle;
	}
}

static struct ibv_qp_init_attr describe_qp(struct ibv_cq *cq, unsigned n_wr)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = n_wr,
			 .max_recv_wr = n_wr,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
}

struct ibv_qp *make_qp(struct ibv_cq *cq, unsigned n_wr)
{
	struct ibv_qp_init_attr attr = describe_qp(cq, n_wr);
	struct ibv_qp *qp = ibv_create_qp(worker.pd, &attr);

	if (!qp)
		fail(0, "create a QP: %s", strerror(errno));
	return qp;
}

void give_qp(void *id)
{
	struct ibv_qp_init_attr attr = describe_qp(worker.cq, 1);
	int r = worker.backend->create_qp(id, &attr);

	if (r < 0)
		fail(r, "create a QP for an id");
}

void describe_connection(struct rdma_conn_param *ret, const struct ibv_qp *qp)
{
	*ret = (struct rdma_conn_param){
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = qp ? qp->qp_num : 0,
	};
}

static bool has_dropin(void)
{
	Dl_info info;

	return dladdr((void *)rdma_create_event_channel, &info) &&
	       strstr(info.dli_fname, "librdmabroker-rdmacm");
}

static void open_device(void)
{
	struct sockaddr_storage addr = worker.is_server ? worker.server :
							  worker.shared->config.client;
	void *id;
	int r;

	if (has_dropin() != (worker.way == WAY_DROPIN))
		fail(0, "the drop-in is %sloaded", has_dropin() ? "" : "not ");
	r = worker.backend->open((struct sockaddr *)&addr, &id, &worker.verbs);
	if (r < 0)
		fail(r, worker.is_server ? "open the server's end" : "open the client's end");
	snprintf(worker.report->device, sizeof(worker.report->device), "%s",
		 ibv_get_device_name(worker.verbs->device));
	worker.pd = ibv_alloc_pd(worker.verbs);
	worker.cq = worker.pd ? ibv_create_cq(worker.verbs, 16, NULL, NULL, 0) : NULL;
	if (!worker.cq)
		fail(0, "PD and CQ on %s: %s", worker.report->device, strerror(errno));
	if (!worker.is_server)
		return;
	r = worker.backend->listen(id);
	if (r < 0)
		fail(r, "listen");
}

static void client_loop(void)
{
	struct command command;

	while (recv(CONTROL_FD, &command, sizeof(command), 0) == sizeof(command)) {
		if (command.order == ORDER_END)
			exit(0);
		client_order(&command);
	}
}

/* Arguments: worker WAY server|NUMBER */
int worker_main(int argc, char **argv)
{
	struct stat st;
	void *memory;

	if (argc != 4 || fstat(SHARED_FD, &st) < 0)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
	if (memory == MAP_FAILED)
		return 2;
	worker.shared = memory;
	while (worker.way < N_WAYS && strcmp(way_names[worker.way], argv[2]) != 0)
		worker.way++;
	if (worker.way == N_WAYS)
		return 2;
	worker.is_server = strcmp(argv[3], "server") == 0;
	worker.backend = worker.way == WAY_LIBRARY ? &library_backend : &direct_backend;
	worker.server = worker.shared->config.server;
	/* Both address families have the port at the same offset. */
	((struct sockaddr_in *)&worker.server)->sin_port = htons(
		(uint16_t)(ntohs(((struct sockaddr_in *)&worker.server)->sin_port) + worker.way));
	if (worker.is_server) {
		worker.report = &worker.shared->server[worker.way];
	} else {
		worker.number = (unsigned)strtoul(argv[3], NULL, 10);
		worker.report = &worker.shared->clients[worker.way][worker.number];
		worker.samples =
			worker.shared->samples + (size_t)worker.number * worker.shared->max_samples;
	}
	open_device();
	if (worker.is_server)
		server_loop();
	client_loop();
	return 0;
}
