/* SPDX-License-Identifier: BSD-2-Clause */

/* Data over an established connection, however it was made. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/connect/bench.h"

#define QUEUE 16

const struct data_request *find_data_request(const void *data, size_t size)
{
	const struct data_request *request = data;

	/* If the client has sent no private data, DATA contains only zeros. */
	return size >= sizeof(*request) && memcmp(request->magic, "rbbench", 8) == 0 ? request :
										       NULL;
}

struct data_end *data_open(const struct data_request *request)
{
	struct data_end *end = calloc(1, sizeof(*end));

	if (!end)
		fail(-ENOMEM, "carry data");
	end->request = *request;
	/* One part each for sending, receiving and writing. */
	end->size = 2 * (size_t)request->ping_size + request->write_size;
	if (posix_memalign((void **)&end->buf, 4096, end->size) != 0)
		fail(-ENOMEM, "carry data");
	memset(end->buf, 0x5a, end->size);
	end->mr = ibv_reg_mr(worker.pd, end->buf, end->size,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	end->cq = ibv_create_cq(worker.verbs, 4 * QUEUE, NULL, NULL, 0);
	if (!end->mr || !end->cq)
		fail(0, "register %zu bytes: %s", end->size, strerror(errno));
	end->qp = make_qp(end->cq, QUEUE);
	return end;
}

/* Each end gets its own CPU. On a shared CPU, each end would wait for the other's time slice. */
void data_begin(struct data_end *end)
{
	int skip = worker.is_server ? 1 : 0;
	cpu_set_t one;

	if (sched_getaffinity(0, sizeof(end->old_cpus), &end->old_cpus) < 0 ||
	    CPU_COUNT(&end->old_cpus) < 2)
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
		if (CPU_ISSET(cpu, &end->old_cpus) && skip-- == 0)
			CPU_SET(cpu, &one);
	end->pinned = sched_setaffinity(0, sizeof(one), &one) == 0;
}

void data_close(struct data_end *end)
{
	if (end->pinned)
		sched_setaffinity(0, sizeof(end->old_cpus), &end->old_cpus);
	ibv_destroy_qp(end->qp);
	ibv_destroy_cq(end->cq);
	ibv_dereg_mr(end->mr);
	free(end->buf);
	free(end);
}

void data_post_receive(struct data_end *end)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->buf + end->request.ping_size,
		.length = end->request.ping_size,
		.lkey = end->mr->lkey,
	};
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	int r = ibv_post_recv(end->qp, &wr, &bad);

	if (r != 0)
		fail(0, "post a receive: %s", strerror(r));
}

static void post(struct data_end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int r = ibv_post_send(end->qp, wr, &bad);

	if (r != 0)
		fail(0, "post a send: %s", strerror(r));
}

static void post_send(struct data_end *end)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->buf,
		.length = end->request.ping_size,
		.lkey = end->mr->lkey,
	};
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	post(end, &wr);
}

/* Waits for a completion. Returns whether it is that of a receive. */
static bool complete(struct data_end *end)
{
	uint64_t deadline = 0;
	struct ibv_wc wc;
	int n;

	for (unsigned i = 1; (n = ibv_poll_cq(end->cq, 1, &wc)) == 0; i++) {
		/* Reading the clock may be slow. */
		if (i % 65536 != 0)
			continue;
		if (deadline == 0)
			deadline = now_ns() + (uint64_t)DEADLINE_MS * 1000000;
		else if (now_ns() > deadline)
			fail(-ETIMEDOUT, "wait for data");
	}
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		fail(0, "data: %s", n < 0 ? "the CQ is broken" : ibv_wc_status_str(wc.status));
	return wc.opcode & IBV_WC_RECV;
}

static void await_receive(struct data_end *end, unsigned *n_sent)
{
	while (!complete(end))
		--*n_sent;
}

void data_echo(struct data_end *end)
{
	unsigned n_sent = 0;

	for (unsigned i = 0; i < end->request.n_pings; i++) {
		await_receive(end, &n_sent);
		if (i + 1 < end->request.n_pings)
			data_post_receive(end);
		post_send(end);
		n_sent++;
	}
	while (n_sent > 0) {
		complete(end);
		n_sent--;
	}
}

void data_ping(struct data_end *end, struct sample *samples)
{
	unsigned n_sent = 0;

	for (unsigned i = 0; i < end->request.n_pings; i++) {
		uint64_t t = now_ns();

		data_post_receive(end);
		post_send(end);
		n_sent++;
		await_receive(end, &n_sent);
		samples[i].ns[PHASE_FULL_CONNECT] = (now_ns() - t) / 2;
	}
	while (n_sent > 0) {
		complete(end);
		n_sent--;
	}
}

uint64_t data_write(struct data_end *end, const struct data_answer *target, unsigned n)
{
	size_t offset = 2 * (size_t)end->request.ping_size;
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->buf + offset,
		.length = end->request.write_size,
		.lkey = end->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = target->addr + offset, .rkey = target->rkey },
	};
	unsigned n_posted = 0, n_done = 0;
	uint64_t start = now_ns();

	while (n_done < n) {
		while (n_posted < n && n_posted - n_done < QUEUE) {
			post(end, &wr);
			n_posted++;
		}
		complete(end);
		n_done++;
	}
	return now_ns() - start;
}
