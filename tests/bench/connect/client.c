/* SPDX-License-Identifier: BSD-2-Clause */

/* The client's end: it makes and ends one connection at a time. */

#include <errno.h>
#include <string.h>

#include "tests/bench/connect/bench.h"

static unsigned current; /* number of the current connection, for fail() */

/* Fails if the next event has another type or id. */
static void expect(void *id, enum rdma_cm_event_type type, struct event *event)
{
	int r;

	do {
		r = worker.backend->get_event(event, true);
		if (r < 0)
			fail(r, "connection %u: wait for %s", current, rdma_event_str(type));
		/* TIMEWAIT_EXIT belongs to an earlier connection, whose id may be destroyed. */
	} while (event->type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	if (event->id != id || event->type != type)
		fail(0, "connection %u: %s (status %d) came instead of %s", current,
		     rdma_event_str(event->type), event->status, rdma_event_str(type));
}

/* Stores the time since START. Returns the current time, at which the next phase begins. */
static uint64_t end_phase(struct sample *sample, enum phase phase, uint64_t start)
{
	uint64_t now = now_ns();

	sample->ns[phase] = now - start;
	return now;
}

static void check(int r, enum phase phase)
{
	if (r < 0)
		fail(r, "connection %u: %s", current, phase_names[phase]);
}

/* Returns an id with a resolved route. */
static void *resolve(struct sample *sample)
{
	const struct backend *b = worker.backend;
	struct sockaddr_storage from = worker.shared->config.client;
	uint64_t t = now_ns();
	struct event event;
	void *id = NULL;

	check(b->create_id(&id), PHASE_CREATE_ID);
	t = end_phase(sample, PHASE_CREATE_ID, t);
	if (worker.shared->config.qps != QPS_UNBOUND) {
		check(b->bind_addr(id, (struct sockaddr *)&from), PHASE_BIND_ADDR);
		t = end_phase(sample, PHASE_BIND_ADDR, t);
	}
	check(b->resolve_addr(id, (struct sockaddr *)&worker.server), PHASE_RESOLVE_ADDR);
	expect(id, RDMA_CM_EVENT_ADDR_RESOLVED, &event);
	t = end_phase(sample, PHASE_RESOLVE_ADDR, t);
	check(b->resolve_route(id), PHASE_RESOLVE_ROUTE);
	expect(id, RDMA_CM_EVENT_ROUTE_RESOLVED, &event);
	end_phase(sample, PHASE_RESOLVE_ROUTE, t);
	return id;
}

/* Connects with a QP in INIT, and moves the QP to RTS. RESPONSE: set to the event with the peer's reply. */
static void finish_connect(void *id, struct ibv_qp *qp, const struct rdma_conn_param *param,
			   struct sample *sample, struct event *response)
{
	const struct backend *b = worker.backend;
	uint64_t start = now_ns(), t;

	check(b->connect(id, param), PHASE_CM_CONNECT);
	expect(id, RDMA_CM_EVENT_CONNECT_RESPONSE, response);
	move_qp(id, qp, IBV_QPS_RTR, &sample->ns[PHASE_RTR_QP_ATTR]);
	move_qp(id, qp, IBV_QPS_RTS, &sample->ns[PHASE_RTS_QP_ATTR]);
	t = now_ns();
	check(b->establish(id), PHASE_ESTABLISH);
	end_phase(sample, PHASE_ESTABLISH, t);
	end_phase(sample, PHASE_CM_CONNECT, start);
}

static void disconnect(void *id, struct sample *sample)
{
	uint64_t start = now_ns();
	struct event event;

	check(worker.backend->disconnect(id), PHASE_DISCONNECT);
	expect(id, RDMA_CM_EVENT_DISCONNECTED, &event);
	end_phase(sample, PHASE_DISCONNECT, start);
}

static void destroy_id(void *id, struct sample *sample)
{
	uint64_t start = now_ns();

	check(worker.backend->destroy_id(id), PHASE_DESTROY_ID);
	end_phase(sample, PHASE_DESTROY_ID, start);
}

static void connect_own_qp(struct sample *sample)
{
	uint64_t start = now_ns(), t;
	struct rdma_conn_param param;
	struct event response;
	struct ibv_qp *qp;
	void *id;

	id = resolve(sample);
	t = now_ns();
	qp = make_qp(worker.cq, 1);
	end_phase(sample, PHASE_CREATE_QP, t);
	move_qp(id, qp, IBV_QPS_INIT, &sample->ns[PHASE_INIT_QP_ATTR]);
	describe_connection(&param, qp);
	finish_connect(id, qp, &param, sample, &response);
	start = end_phase(sample, PHASE_FULL_CONNECT, start);
	disconnect(id, sample);
	destroy_id(id, sample);
	t = now_ns();
	check(-ibv_destroy_qp(qp), PHASE_DESTROY_QP);
	end_phase(sample, PHASE_DESTROY_QP, t);
	end_phase(sample, PHASE_TEARDOWN, start);
}

/* Calls that the library makes itself count towards the phase in which they are made. */
static void connect_managed_qp(struct sample *sample)
{
	uint64_t start = now_ns(), t;
	struct rdma_conn_param param;
	struct event event;
	void *id;

	memset(sample, 0, sizeof(*sample));
	id = resolve(sample);
	t = now_ns();
	give_qp(id);
	t = end_phase(sample, PHASE_CREATE_QP, t);
	describe_connection(&param, NULL);
	check(worker.backend->connect(id, &param), PHASE_CM_CONNECT);
	expect(id, RDMA_CM_EVENT_ESTABLISHED, &event);
	end_phase(sample, PHASE_CM_CONNECT, t);
	start = end_phase(sample, PHASE_FULL_CONNECT, start);
	disconnect(id, sample);
	t = now_ns();
	worker.backend->destroy_qp(id);
	end_phase(sample, PHASE_DESTROY_QP, t);
	destroy_id(id, sample);
	end_phase(sample, PHASE_TEARDOWN, start);
}

static void connect_once(struct sample *sample)
{
	if (worker.shared->config.qps != QPS_PROGRAM)
		connect_managed_qp(sample);
	else
		connect_own_qp(sample);
}

static void call_broker(unsigned n)
{
	void *id = NULL;

	check(worker.backend->create_id(&id), PHASE_CREATE_ID);
	for (unsigned i = 0; i < n; i++) {
		uint64_t t = now_ns();
		int r = worker.backend->rpc(id);

		if (r < 0)
			fail(r, "call %u to the broker", i);
		end_phase(&worker.samples[i], PHASE_FULL_CONNECT, t);
	}
	worker.backend->destroy_id(id);
}

static void carry_data(unsigned n)
{
	const struct config *config = &worker.shared->config;
	const struct data_request request = {
		.magic = "rbbench",
		.n_pings = n,
		.ping_size = config->ping_size,
		.write_size = config->write_size,
	};
	struct rdma_conn_param param;
	struct data_answer target;
	struct data_end *end;
	struct sample sample;
	struct event response;
	void *id;

	id = resolve(&sample);
	end = data_open(&request);
	move_qp(id, end->qp, IBV_QPS_INIT, NULL);
	describe_connection(&param, end->qp);
	param.private_data = &request;
	param.private_data_len = sizeof(request);
	finish_connect(id, end->qp, &param, &sample, &response);
	if (response.data_len < sizeof(target))
		fail(0, "the server's answer has no address to write to");
	memcpy(&target, response.data, sizeof(target));
	data_begin(end);
	data_ping(end, worker.samples);
	worker.report->write_ns = data_write(end, &target, config->n_writes);
	disconnect(id, &sample);
	destroy_id(id, &sample);
	data_close(end);
}

void client_order(const struct command *command)
{
	uint64_t cpu;

	if (command->order == ORDER_READY) {
		answer();
		return;
	}
	if (command->n > worker.shared->max_samples)
		fail(0, "%u samples are asked for, there is room for %u", command->n,
		     worker.shared->max_samples);
	answer();
	await_barrier();
	cpu = cpu_ns();
	if (command->order == ORDER_CONNECT)
		for (current = 0; current < command->n; current++)
			connect_once(&worker.samples[current]);
	else if (command->order == ORDER_RPC)
		call_broker(command->n);
	else
		carry_data(command->n);
	worker.report->cpu_ns = cpu_ns() - cpu;
	worker.report->ended_ns = now_ns();
	answer();
}
