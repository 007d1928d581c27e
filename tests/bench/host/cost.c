/* SPDX-License-Identifier: BSD-2-Clause */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/bench/host/host.h"

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
#define LIFE_TARGET 60 /* us of CPU time */

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

static const char *const half_names[] = {
	[HALF_CONNECT] = "connect",
	[HALF_END] = "end",
	[_HALF_MAX] = "whole life",
};

/* A session without or with RDMABROKER_FAIL_BY_EVENT, and the server to which it connects. */
struct side {
	struct server server;
	uint16_t port;
	struct rdmabroker *session;
	struct rdmabroker_id *probe; /* an id that is not connected */
};

enum part {
	PART_DAEMON,
	PART_CLIENT,
	PART_SERVER,
	PART_ALL, /* the sum of the three parts above */
	PART_WALL, /* the client's elapsed time */
	_PART_MAX,
};

static const char *const part_names[] = {
	[PART_DAEMON] = "daemon", [PART_CLIENT] = "client",  [PART_SERVER] = "server",
	[PART_ALL] = "both ends", [PART_WALL] = "time, p50",
};

/* Of one connection or of one half of it. */
struct cost {
	double us[_PART_MAX];
	struct traffic client, server;
};

/* The measurements of a flow. The index _HALF_MAX is the sum of both halves. */
struct measured {
	struct figure us[_HALF_MAX + 1][_PART_MAX];
	struct traffic client[_HALF_MAX + 1], server[_HALF_MAX + 1]; /* in all rounds */
};

static struct daemon broker;
static struct side sides[2]; /* the index is struct flow's by_event */
static uint32_t last_qpn = 16; /* each connection gets a new number, because of timewait */

static void start_server(struct side *side, bool by_event)
{
	side->port = SERVICE_PORT + by_event;
	server_start(&side->server, broker.place.socket, by_event ? RDMABROKER_FAIL_BY_EVENT : 0,
		     side->port);
}

/* A child cannot use its parent's session, so the session is opened after the last fork(). */
static void open_client(struct side *side, bool by_event)
{
	side->session = open_session(broker.place.socket, by_event ? RDMABROKER_FAIL_BY_EVENT : 0);
	must(rdmabroker_create_id(side->session, RDMABROKER_PS_TCP, NULL, &side->probe),
	     "create_id");
}

static void close_side(struct side *side)
{
	rdmabroker_close(side->session);
	server_stop(&side->server);
}

static struct rdmabroker_id *connect_one(const struct side *side, const struct flow *flow)
{
	struct rdmabroker_conn_param param = RDMABROKER_CONN_PARAM_INIT;
	struct sockaddr_in from = service_addr(0), to = service_addr(side->port);
	struct rdmabroker_id *id;

	MUST(rdmabroker_create_id(side->session, RDMABROKER_PS_TCP, NULL, &id));
	if (flow->binds)
		MUST(rdmabroker_bind_addr(id, (const struct sockaddr *)&from));
	MUST(rdmabroker_resolve_addr(id, NULL, (const struct sockaddr *)&to, DEADLINE_MS));
	traffic_await(side->session, RDMABROKER_EVENT_ADDR_RESOLVED);
	MUST(rdmabroker_resolve_route(id, DEADLINE_MS));
	traffic_await(side->session, RDMABROKER_EVENT_ROUTE_RESOLVED);
	traffic_get_qp_attr(id, IBV_QPS_INIT);
	param.qp_num = ++last_qpn;
	MUST(rdmabroker_connect(id, &param));
	traffic_await(side->session, RDMABROKER_EVENT_CONNECT_RESPONSE);
	traffic_get_qp_attr(id, IBV_QPS_RTR);
	traffic_get_qp_attr(id, IBV_QPS_RTS);
	MUST(rdmabroker_establish(id));
	return id;
}

static void end_one(const struct side *side, struct rdmabroker_id *id)
{
	MUST(rdmabroker_disconnect(id));
	traffic_await(side->session, RDMABROKER_EVENT_DISCONNECTED);
	traffic_begin_call();
	rdmabroker_destroy_id(id);
}

static struct cost run_half(const struct flow *flow, enum half half, struct rdmabroker_id **ids,
			    unsigned n)
{
	const struct side *side = &sides[flow->by_event];
	struct daemon_work before, after;
	struct share client, server;
	struct cost cost;
	double wall[STEPS];
	int value;

	daemon_get_work(&broker, &before);
	server_begin(&side->server, half, n);
	share_begin(&client);
	for (unsigned i = 0; i < n; i++) {
		uint64_t start = now_ns();

		if (half == HALF_CONNECT)
			ids[i] = connect_one(side, flow);
		else
			end_one(side, ids[i]);
		wall[i] = (double)(now_ns() - start) / 1000;
	}
	share_end(&client);
	server = server_finish(&side->server);
	/* A reply implies that the daemon has processed all earlier requests. */
	must(rdmabroker_get_option(side->probe, RDMABROKER_OPTION_TOS, &value), "get_option");
	daemon_get_work(&broker, &after);

	cost.us[PART_DAEMON] = (double)(after.cpu_ns - before.cpu_ns) / 1000 / n;
	cost.us[PART_CLIENT] = (double)client.cpu_ns / 1000 / n;
	cost.us[PART_SERVER] = (double)server.cpu_ns / 1000 / n;
	cost.us[PART_ALL] = cost.us[PART_DAEMON] + cost.us[PART_CLIENT] + cost.us[PART_SERVER];
	cost.us[PART_WALL] = median_of(wall, n);
	cost.client = client.traffic;
	cost.server = server.traffic;
	return cost;
}

static void add_us(struct measured *measured, enum half half, const double *us)
{
	for (int part = 0; part < _PART_MAX; part++) {
		struct figure *figure = &measured->us[half][part];
		struct figure *sum = &measured->us[_HALF_MAX][part];

		sum->rounds[figure->n] = (half == 0 ? 0 : sum->rounds[figure->n]) + us[part];
		figure->rounds[figure->n++] = us[part];
		sum->n = figure->n;
	}
}

static void count(struct traffic *sum, const struct traffic *traffic)
{
	sum->packets += traffic->packets;
	sum->waits += traffic->waits;
}

static void run_turn(const struct flow *flow, struct measured *ret)
{
	struct rdmabroker_id *ids[STEPS];
	struct cost cost;

	/*
	 * In a long series of requests without an event, the library requests additional replies, so packets are
	 * counted one connection at a time.
	 */
	for (int i = 0; i < COUNTED; i++)
		for (int half = 0; half < _HALF_MAX; half++) {
			cost = run_half(flow, (enum half)half, ids, 1);
			count(&ret->client[half], &cost.client);
			count(&ret->client[_HALF_MAX], &cost.client);
			count(&ret->server[half], &cost.server);
			count(&ret->server[_HALF_MAX], &cost.server);
		}
	for (int half = 0; half < _HALF_MAX; half++) {
		cost = run_half(flow, (enum half)half, ids, STEPS);
		add_us(ret, (enum half)half, cost.us);
	}
}

static void add_traffic(struct table *table, const struct traffic *traffic, double connections)
{
	table_cell(table, "%.4g", (double)traffic->packets / connections);
	table_cell(table, "%.4g", (double)traffic->waits / connections);
}

static void add_rows(struct table *table, const struct flow *flow, const struct measured *measured)
{
	for (int half = 0; half <= _HALF_MAX; half++) {
		const struct figure *us = measured->us[half];
		double connections = (double)us[0].n * COUNTED;

		table_cell(table, "%s", half == 0 ? flow->name : "");
		table_cell(table, "%s", half_names[half]);
		for (int part = 0; part < _PART_MAX; part++)
			table_cell(table, "%.1f", spread_of(&us[part]).median);
		add_traffic(table, &measured->client[half], connections);
		add_traffic(table, &measured->server[half], connections);
		table_end_row(table);
	}
}

static void print_costs(const char *where, const struct measured *measured)
{
	static struct table table;

	table = (struct table){
		.note = "CPU time of the processes, and the median of the client's time, for each "
			"connection.\nPackets are those sent and received, waits are those for the "
			"broker. One daemon serves both ends.",
	};
	snprintf(table.title, sizeof(table.title), "What the broker costs, %s", where);
	table_cell(&table, "us");
	table_cell(&table, "%s", "");
	for (int part = 0; part < _PART_MAX; part++)
		table_cell(&table, "%s", part_names[part]);
	table_cell(&table, "client: packets");
	table_cell(&table, "waits");
	table_cell(&table, "server: packets");
	table_cell(&table, "waits");
	table_end_row(&table);
	for (size_t i = 0; i < N_FLOWS; i++)
		add_rows(&table, &flows[i], &measured[i]);
	table_print(&table);
	result_add_table(&table);
}

static void add_percent(struct table *table, double us)
{
	static const unsigned ms[] = { 1, 3, 10 };

	for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++)
		table_cell(table, "%.1f %%", us / ms[i] / 10);
}

static void print_addition(const char *where, const struct measured *measured)
{
	static struct table table;

	table = (struct table){
		.note = "The time and the CPU time of the connect above, both ends, in per cent of "
			"what a connect takes without.",
	};
	snprintf(table.title, sizeof(table.title), "What that adds to a connect, %s", where);
	table_cell(&table, "a connect without the broker:");
	table_cell(&table, "time: 1 ms");
	table_cell(&table, "3 ms");
	table_cell(&table, "10 ms");
	table_cell(&table, "CPU time: 1 ms");
	table_cell(&table, "3 ms");
	table_cell(&table, "10 ms");
	table_end_row(&table);
	for (size_t i = 0; i < N_FLOWS; i++) {
		const struct figure *us = measured[i].us[HALF_CONNECT];

		table_cell(&table, "%s", flows[i].name);
		add_percent(&table, spread_of(&us[PART_WALL]).median);
		add_percent(&table, spread_of(&us[PART_ALL]).median);
		table_end_row(&table);
	}
	table_print(&table);
	result_add_table(&table);
}

static void add_results(const char *where, const struct flow *flow, const struct measured *measured)
{
	char name[96], detail[64];

	for (int half = 0; half < _HALF_MAX; half++)
		for (int part = 0; part < _PART_MAX; part++) {
			snprintf(name, sizeof(name), "%s, %s, %s: %s", half_names[half], flow->name,
				 where, part_names[part]);
			result_add(name, "us", spread_of(&measured->us[half][part]).median);
		}
	if (flow->by_event) {
		struct spread life = spread_of(&measured->us[_HALF_MAX][PART_ALL]);

		snprintf(name, sizeof(name), "CPU of a life, %s, %s", flow->name, where);
		snprintf(detail, sizeof(detail), "(%.1f-%.1f)", life.low, life.high);
		result_add_target(name, "us", life.median, LIFE_TARGET, detail);
	}
}

static void run(const struct host_options *options, const int *cpus, const char *where)
{
	static struct measured measured[N_FLOWS];

	memset(measured, 0, sizeof(measured));
	cpus_pin(0, cpus[0]);
	cpus_pin(broker.pid, cpus[1]);
	for (int i = 0; i < 2; i++)
		cpus_pin(sides[i].server.pid, cpus[0]);
	for (unsigned round = 0; round < options->rounds; round++)
		for (size_t i = 0; i < N_FLOWS; i++)
			run_turn(&flows[i], &measured[i]);
	print_costs(where, measured);
	print_addition(where, measured);
	for (size_t i = 0; i < N_FLOWS; i++)
		add_results(where, &flows[i], &measured[i]);
}

void measure_cost(const struct host_options *options)
{
	cpu_set_t all;
	int cpus[2];

	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		die("sched_getaffinity: %m");
	cpus_find(&all, cpus);
	daemon_start(&broker);
	for (int i = 0; i < 2; i++)
		start_server(&sides[i], i);
	for (int i = 0; i < 2; i++)
		open_client(&sides[i], i);

	run(options, (const int[]){ cpus[0], cpus[0] }, "one CPU for all");
	if (cpus[1] >= 0)
		run(options, cpus, "a CPU for the daemon");
	else
		printf("There is one CPU: a CPU for the daemon is not measured.\n\n");

	for (int i = 0; i < 2; i++)
		close_side(&sides[i]);
	daemon_stop(&broker);
	if (sched_setaffinity(0, sizeof(all), &all) < 0)
		die("sched_setaffinity: %m");
}
