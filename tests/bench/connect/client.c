/* SPDX-License-Identifier: BSD-2-Clause */

/* The client's end: it makes and ends one connection at a time. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/connect/worker.h"
#include "tests/bench/stats.h"

/*
 * The phases of cmtime, with its names. Only "disconnect" differs: it includes the peer's reply. Calls that the library
 * makes by itself count towards the phase in which it makes them.
 */
enum phase {
	PHASE_FULL_CONNECT, /* from before CREATE_ID to after ESTABLISH */
	PHASE_CREATE_ID,
	PHASE_BIND_ADDR,
	PHASE_RESOLVE_ADDR,
	PHASE_RESOLVE_ROUTE,
	PHASE_CREATE_QP,
	PHASE_INIT_QP_ATTR,
	PHASE_INIT_QP,
	PHASE_RTR_QP_ATTR,
	PHASE_RTR_QP,
	PHASE_RTS_QP_ATTR,
	PHASE_RTS_QP,
	PHASE_CM_CONNECT, /* from the request to after ESTABLISH, with the QP's transitions to RTS */
	PHASE_ESTABLISH,
	PHASE_DISCONNECT, /* until the event DISCONNECTED */
	PHASE_DESTROY_ID,
	PHASE_DESTROY_QP,
	PHASE_TEARDOWN, /* PHASE_DISCONNECT, PHASE_DESTROY_ID and PHASE_DESTROY_QP together */
	N_PHASES,
};

static const char phase_names[] =
	"full connect\tcreate id\tbind addr\tresolve addr\tresolve route\tcreate qp\t"
	"init qp attr\tinit qp\trtr qp attr\trtr qp\trts qp attr\trts qp\tcm connect\testablish\t"
	"disconnect\tdestroy id\tdestroy qp\tdisconnect+destroy\n";

struct sample {
	uint64_t ns[N_PHASES]; /* 0: the phase was not measured */
};

static unsigned current; /* number of the current connection, for errors */

static void check(int r, const char *what)
{
	if (r < 0)
		fail(r, "connection %u: %s", current, what);
}

/* Fails if the next event has another type or id. */
static void expect(void *id, enum rdma_cm_event_type type)
{
	struct event event;

	do {
		check(worker.backend->get_event(&event, true), rdma_event_str(type));
		/* TIMEWAIT_EXIT belongs to an earlier connection, whose id may be destroyed. */
	} while (event.type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	if (event.id != id || event.type != type)
		fail(0, "connection %u: %s (status %d) came instead of %s", current,
		     rdma_event_str(event.type), event.status, rdma_event_str(type));
}

/* Stores the time since START. Returns the current time, at which the next phase begins. */
static uint64_t end_phase(struct sample *sample, enum phase phase, uint64_t start)
{
	uint64_t now = now_ns();

	sample->ns[phase] = now - start;
	return now;
}

/* Returns an id with a resolved route. */
static void *resolve(struct sample *sample)
{
	const struct backend *b = worker.backend;
	uint64_t t = now_ns();
	void *id = NULL;

	check(b->create_id(&id), "create id");
	t = end_phase(sample, PHASE_CREATE_ID, t);
	if (worker.moves_qps) {
		check(b->bind_addr(id, (struct sockaddr *)&worker.client), "bind addr");
		t = end_phase(sample, PHASE_BIND_ADDR, t);
	}
	check(b->resolve_addr(id, (struct sockaddr *)&worker.server), "resolve addr");
	expect(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	t = end_phase(sample, PHASE_RESOLVE_ADDR, t);
	check(b->resolve_route(id), "resolve route");
	expect(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	end_phase(sample, PHASE_RESOLVE_ROUTE, t);
	return id;
}

/* Returns the program's QP; NULL: the library made one. */
static struct ibv_qp *prepare_qp(void *id, struct sample *sample)
{
	uint64_t t = now_ns();
	struct ibv_qp *qp = NULL;

	if (worker.moves_qps)
		qp = make_qp();
	else
		give_qp(id);
	end_phase(sample, PHASE_CREATE_QP, t);
	if (qp)
		move_qp(id, qp, IBV_QPS_INIT, &sample->ns[PHASE_INIT_QP_ATTR]);
	return qp;
}

static void finish_connect(void *id, struct ibv_qp *qp, struct sample *sample)
{
	const struct backend *b = worker.backend;
	uint64_t start = now_ns(), t;

	check(b->connect(id, qp ? qp->qp_num : 0), "connect");
	if (qp) {
		expect(id, RDMA_CM_EVENT_CONNECT_RESPONSE);
		move_qp(id, qp, IBV_QPS_RTR, &sample->ns[PHASE_RTR_QP_ATTR]);
		move_qp(id, qp, IBV_QPS_RTS, &sample->ns[PHASE_RTS_QP_ATTR]);
		t = now_ns();
		check(b->establish(id), "establish");
		end_phase(sample, PHASE_ESTABLISH, t);
	} else {
		expect(id, RDMA_CM_EVENT_ESTABLISHED);
	}
	end_phase(sample, PHASE_CM_CONNECT, start);
}

static void end(void *id, struct ibv_qp *qp, struct sample *sample)
{
	uint64_t start = now_ns(), t;

	check(worker.backend->disconnect(id), "disconnect");
	expect(id, RDMA_CM_EVENT_DISCONNECTED);
	t = end_phase(sample, PHASE_DISCONNECT, start);
	if (!qp) {
		worker.backend->destroy_qp(id);
		t = end_phase(sample, PHASE_DESTROY_QP, t);
	}
	check(worker.backend->destroy_id(id), "destroy id");
	t = end_phase(sample, PHASE_DESTROY_ID, t);
	if (qp) {
		check(-ibv_destroy_qp(qp), "destroy qp");
		end_phase(sample, PHASE_DESTROY_QP, t);
	}
	end_phase(sample, PHASE_TEARDOWN, start);
}

static void connect_once(struct sample *sample)
{
	uint64_t start = now_ns();
	struct ibv_qp *qp;
	void *id;

	memset(sample, 0, sizeof(*sample));
	id = resolve(sample);
	qp = prepare_qp(id, sample);
	finish_connect(id, qp, sample);
	end_phase(sample, PHASE_FULL_CONNECT, start);
	end(id, qp, sample);
}

static void print_samples(const struct sample *samples, unsigned n)
{
	printf("%s", phase_names);
	for (unsigned i = 0; i < n; i++)
		for (unsigned phase = 0; phase < N_PHASES; phase++)
			printf("%llu%c", (unsigned long long)samples[i].ns[phase],
			       phase + 1 < N_PHASES ? '\t' : '\n');
	fflush(stdout);
}

/*
 * Orders: "connect QPS N" makes N connections when a byte of the barrier is there; the answers are "waiting", and
 * "done", the CPU time, and when it was done. "samples" prints the phases' names, and a line for each connection.
 */
void run_client(void)
{
	struct sample *samples = NULL;
	unsigned n = 0;
	uint64_t cpu;
	char byte;

	for (;;) {
		if (strcmp(read_order(&n), "samples") == 0) {
			print_samples(samples, n);
			continue;
		}
		samples = realloc(samples, n * sizeof(*samples));
		if (!samples)
			fail(-ENOMEM, "%u connections", n);
		printf("waiting\n");
		fflush(stdout);
		if (read(worker.barrier, &byte, 1) != 1)
			exit(0);
		cpu = get_cpu_ns();
		for (current = 0; current < n; current++)
			connect_once(&samples[current]);
		printf("done %llu %llu\n", (unsigned long long)(get_cpu_ns() - cpu),
		       (unsigned long long)now_ns());
		fflush(stdout);
	}
}
