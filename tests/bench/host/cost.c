/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/bench/host/host.h"
#include "tests/bench/stats.h"

/*
 * Measures what the broker costs for a connection: the CPU time of the daemon, the client and the server, which are
 * separate processes, and the time that the client needs. One daemon serves both ends. The client and the server also
 * count their packets and waits.
 *
 * The costs do not include what the fake fabric replaces: the connection manager, the look-up of a QP's owner by
 * netlink, and the threads that destroy ids.
 */

#define STEPS 100 /* connections of each flow in each round */
#define COUNTED 10 /* further connections, before these */

static const struct flow {
	const char *name;
	bool by_event, binds;
} flows[] = {
	{ "FAIL_BY_EVENT, unbound", true, false },
	{ "FAIL_BY_EVENT, bound", true, true },
	{ "no flags, unbound", false, false },
	{ "no flags, bound", false, true },
};

#define N_FLOWS (sizeof(flows) / sizeof(flows[0]))

enum half {
	HALF_CONNECT,
	HALF_END,
	_HALF_MAX,
};

enum part {
	PART_DAEMON,
	PART_CLIENT,
	PART_SERVER,
	PART_ALL, /* the sum of the three parts above */
	PART_WALL, /* the client's elapsed time, its median */
	_PART_MAX,
};

/* What the server is told: its part of a half of N connections. Its answer is its struct traffic for them. */
struct order {
	enum half half;
	unsigned n;
};

/* Sessions without or with RDMABROKER_FAIL_BY_EVENT: the server has a process of its own, the client is this one. */
struct side {
	struct process server;
	struct rdmabroker *session;
	struct rdmabroker_id *probe; /* an id that is not connected */
};

/* The measurements of a half of a flow. */
struct measured {
	double us[_PART_MAX][ROUNDS_MAX];
	struct traffic client, server; /* in all rounds */
};

static struct process broker;
static struct side sides[2]; /* the index is struct flow's by_event */
static bool by_event; /* of the server that is started */
static uint32_t last_qpn = 16; /* each connection gets a new number, because of timewait */

#define MUST(call) (traffic_begin_call(), must((call), #call))

static struct rdmabroker_id *await_counted(struct rdmabroker *session,
					   enum rdmabroker_event_type type)
{
	traffic_begin_call();
	return await(session, type);
}

/* Requests the attributes for STATE, as a program that moves its own QP. */
static void get_qp_attr(struct rdmabroker_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	MUST(rdmabroker_init_qp_attr(id, &attr, &mask));
}

/* A reply implies that the daemon has processed all earlier requests. */
static void await_daemon(struct rdmabroker_id *id)
{
	int value;

	must(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), "get_option");
}

static struct traffic traffic_since(const struct traffic *start)
{
	struct traffic now = traffic_get();

	return (struct traffic){ now.packets - start->packets, now.waits - start->waits };
}

static void accept_one(struct rdmabroker *session)
{
	struct rdmabroker_conn_param param = RDMABROKER_CONN_PARAM_INIT;
	struct rdmabroker_id *id = await_counted(session, RDMABROKER_EVENT_CONNECT_REQUEST);

	get_qp_attr(id, IBV_QPS_INIT);
	get_qp_attr(id, IBV_QPS_RTR);
	get_qp_attr(id, IBV_QPS_RTS);
	param.qp_num = ++last_qpn;
	MUST(rdmabroker_accept(id, &param));
	await_counted(session, RDMABROKER_EVENT_ESTABLISHED);
}

static void end_accepted(struct rdmabroker *session)
{
	struct rdmabroker_id *id = await_counted(session, RDMABROKER_EVENT_DISCONNECTED);

	traffic_begin_call();
	rdmabroker_destroy_id(id);
}

static void serve(int control)
{
	struct rdmabroker *session = open_session(by_event ? RDMABROKER_FAIL_BY_EVENT : 0);
	struct rdmabroker_id *listener = listen_on(session, (uint16_t)(SERVICE_PORT + by_event));
	struct traffic start, traffic;
	struct order order;

	last_qpn = (by_event + 1U) << 22; /* QP numbers of this server alone */
	process_send(control, "r", 1);
	while (recv(control, &order, sizeof(order), 0) == sizeof(order)) {
		start = traffic_get();
		for (unsigned i = 0; i < order.n; i++)
			order.half == HALF_CONNECT ? accept_one(session) : end_accepted(session);
		traffic = traffic_since(&start);
		await_daemon(listener);
		process_send(control, &traffic, sizeof(traffic));
	}
	rdmabroker_close(session);
}

static struct rdmabroker_id *connect_one(const struct flow *flow)
{
	struct rdmabroker_conn_param param = RDMABROKER_CONN_PARAM_INIT;
	struct sockaddr_in from = service_addr(0),
			   to = service_addr((uint16_t)(SERVICE_PORT + flow->by_event));
	struct rdmabroker *session = sides[flow->by_event].session;
	struct rdmabroker_id *id;

	MUST(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id));
	if (flow->binds)
		MUST(rdmabroker_bind_addr(id, (const struct sockaddr *)&from));
	MUST(rdmabroker_resolve_addr(id, NULL, (const struct sockaddr *)&to, DEADLINE_MS));
	await_counted(session, RDMABROKER_EVENT_ADDR_RESOLVED);
	MUST(rdmabroker_resolve_route(id, DEADLINE_MS));
	await_counted(session, RDMABROKER_EVENT_ROUTE_RESOLVED);
	get_qp_attr(id, IBV_QPS_INIT);
	param.qp_num = ++last_qpn;
	MUST(rdmabroker_connect(id, &param));
	await_counted(session, RDMABROKER_EVENT_CONNECT_RESPONSE);
	get_qp_attr(id, IBV_QPS_RTR);
	get_qp_attr(id, IBV_QPS_RTS);
	MUST(rdmabroker_establish(id));
	return id;
}

static void end_one(const struct flow *flow, struct rdmabroker_id *id)
{
	MUST(rdmabroker_disconnect(id));
	await_counted(sides[flow->by_event].session, RDMABROKER_EVENT_DISCONNECTED);
	traffic_begin_call();
	rdmabroker_destroy_id(id);
}

/* RET_US: set to us for each connection. */
static void run_half(const struct flow *flow, enum half half, struct rdmabroker_id **ids,
		     unsigned n, double ret_us[_PART_MAX], struct measured *sum)
{
	const struct side *side = &sides[flow->by_event];
	const struct process client = { .pid = getpid() };
	const struct process *const processes[] = { &broker, &client, &side->server };
	const struct order order = { half, n };
	struct traffic start = traffic_get(), there, here;
	double wall[STEPS];

	for (int i = 0; i < PART_ALL; i++)
		ret_us[i] = -process_get_cpu(processes[i]);
	process_send(side->server.control, &order, sizeof(order));
	for (unsigned i = 0; i < n; i++) {
		double began = now_us();

		if (half == HALF_CONNECT)
			ids[i] = connect_one(flow);
		else
			end_one(flow, ids[i]);
		wall[i] = now_us() - began;
	}
	here = traffic_since(&start);
	ret_us[PART_CLIENT] += process_get_cpu(&client);
	process_receive(side->server.control, &there, sizeof(there));
	await_daemon(side->probe);
	ret_us[PART_DAEMON] += process_get_cpu(&broker);
	ret_us[PART_SERVER] += process_get_cpu(&side->server);
	ret_us[PART_ALL] = 0;
	for (int i = 0; i < PART_ALL; i++)
		ret_us[PART_ALL] += ret_us[i] /= n;
	ret_us[PART_WALL] = median(wall, n);
	sum->client.packets += here.packets;
	sum->client.waits += here.waits;
	sum->server.packets += there.packets;
	sum->server.waits += there.waits;
}

static void run_turn(const struct flow *flow, unsigned round, struct measured measured[_HALF_MAX])
{
	struct rdmabroker_id *ids[STEPS];
	struct measured uncounted;
	double us[_PART_MAX];

	/*
	 * In a long series of requests without an event, the library requests additional replies, so packets are
	 * counted one connection at a time.
	 */
	for (int i = 0; i < COUNTED; i++)
		for (int half = 0; half < _HALF_MAX; half++)
			run_half(flow, (enum half)half, ids, 1, us, &measured[half]);
	for (int half = 0; half < _HALF_MAX; half++) {
		run_half(flow, (enum half)half, ids, STEPS, us, &uncounted);
		for (int part = 0; part < _PART_MAX; part++)
			measured[half].us[part][round] = us[part];
	}
}

static void pin(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(pid, sizeof(set), &set) < 0)
		die("sched_setaffinity: %m");
}

/* The daemon has the CPU DAEMON_CPU, all others have CPU. */
static void run(unsigned rounds, int cpu, int daemon_cpu, const char *where)
{
	static struct measured measured[N_FLOWS][_HALF_MAX];

	memset(measured, 0, sizeof(measured));
	pin(0, cpu);
	pin(broker.pid, daemon_cpu);
	for (int i = 0; i < 2; i++)
		pin(sides[i].server.pid, cpu);
	for (unsigned round = 0; round < rounds; round++)
		for (size_t i = 0; i < N_FLOWS; i++)
			run_turn(&flows[i], round, measured[i]);

	printf("What the broker costs for a connection, %s; us\n"
	       "  %-31s %7s %7s %7s %9s %9s   client: packets, waits   server: packets, waits\n",
	       where, "", "daemon", "client", "server", "both ends", "time, p50");
	for (size_t i = 0; i < N_FLOWS * _HALF_MAX; i++) {
		struct measured *m = &measured[i / _HALF_MAX][i % _HALF_MAX];
		double n = (double)rounds * COUNTED, us[_PART_MAX];

		for (int part = 0; part < _PART_MAX; part++)
			us[part] = median(m->us[part], rounds);
		printf("  %-22s %-8s %7.1f %7.1f %7.1f %9.1f %9.1f %17.4g %6.4g %17.4g %6.4g\n",
		       i % _HALF_MAX ? "" : flows[i / _HALF_MAX].name,
		       i % _HALF_MAX ? "end" : "connect", us[PART_DAEMON], us[PART_CLIENT],
		       us[PART_SERVER], us[PART_ALL], us[PART_WALL], m->client.packets / n,
		       m->client.waits / n, m->server.packets / n, m->server.waits / n);
	}
	printf("\n");
	fflush(stdout);
}

/* Returns the first CPU from CPU on that this process may use; -1: none. */
static int next_cpu(const cpu_set_t *all, int cpu)
{
	while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, all))
		cpu++;
	return cpu < CPU_SETSIZE ? cpu : -1;
}

void measure_cost(unsigned rounds)
{
	cpu_set_t all;
	int first, second;

	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		die("sched_getaffinity: %m");
	first = next_cpu(&all, 0);
	second = next_cpu(&all, first + 1);
	daemon_start(&broker);
	for (int i = 0; i < 2; i++) {
		by_event = i;
		process_start(&sides[i].server, serve);
	}
	/* A child cannot use its parent's session, so the sessions are opened after the last fork(). */
	for (int i = 0; i < 2; i++) {
		sides[i].session = open_session(i ? RDMABROKER_FAIL_BY_EVENT : 0);
		must(rdmabroker_create_id(sides[i].session, RDMABROKER_PS_TCP, NULL,
					  &sides[i].probe),
		     "create_id");
	}

	printf("CPU time of the processes, and the median of the client's time. Packets are those sent and received, waits\n"
	       "are those for the broker. One daemon serves both ends.\n\n");
	run(rounds, first, first, "one CPU for all");
	if (second >= 0)
		run(rounds, first, second, "a CPU for the daemon");
	else
		printf("There is one CPU: a CPU for the daemon is not measured.\n\n");

	for (int i = 0; i < 2; i++) {
		rdmabroker_close(sides[i].session);
		process_stop(&sides[i].server);
	}
	daemon_stop(&broker);
	sched_setaffinity(0, sizeof(all), &all);
}
