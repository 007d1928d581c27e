/* SPDX-License-Identifier: BSD-2-Clause */

/* Each round begins with another way than the round before, so that changes on the host affect all ways alike. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/connect/bench.h"

#define MIN_CONNECTS 4

static struct team teams[N_WAYS];

/* Round 0 only warms up, with a quarter of the connections. */
static unsigned n_connects_each(const struct options *options, unsigned round, unsigned n_clients)
{
	unsigned n = (options->n_connects + n_clients - 1) / n_clients;

	if (round == 0)
		n /= 4;
	return n < MIN_CONNECTS ? MIN_CONNECTS : n;
}

/* Returns the CPU time of the process, or of its first thread if the kernel has schedstat; 0: not known. */
static uint64_t process_cpu_ns(int pid)
{
	unsigned long long ns = 0, user, system;
	char path[64];
	FILE *f;

	if (pid == 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	f = fopen(path, "re");
	if (f) {
		/* schedstat counts only the first thread, but is more precise than the ticks in stat. */
		if (fscanf(f, "%llu", &ns) != 1)
			ns = 0;
		fclose(f);
		return ns;
	}
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		die("the daemon, process %d, is gone", pid);
	if (fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
		   &system) == 2)
		ns = (user + system) * (1000000000ull / (unsigned long)sysconf(_SC_CLK_TCK));
	fclose(f);
	return ns;
}

static uint64_t host_cpu_ns(void)
{
	unsigned long long user, nice, system, irq, softirq;
	uint64_t ticks = 0;
	FILE *f = fopen("/proc/stat", "re");

	if (!f)
		return 0;
	if (fscanf(f, "cpu %llu %llu %llu %*u %*u %llu %llu", &user, &nice, &system, &irq,
		   &softirq) == 5)
		ticks = user + nice + system + irq + softirq;
	fclose(f);
	return ticks * (1000000000ull / (unsigned long)sysconf(_SC_CLK_TCK));
}

static unsigned choose_ways(const struct options *options, enum way ret[N_WAYS])
{
	unsigned n = 0;

	for (enum way way = 0; way < N_WAYS; way++)
		if (options->ways[way])
			ret[n++] = way;
	return n;
}

static void measure_connects(const struct options *options, struct result *result)
{
	struct team *team = &teams[result->way];
	uint64_t start, daemon, host, server;

	shared->config.qps = result->qps;
	ask_server(team, result->way, ORDER_MARK);
	server = shared->server[result->way].cpu_ns;
	daemon = process_cpu_ns(options->daemon_pid);
	host = host_cpu_ns();
	start = ask_clients(team, result->way, result->n_clients, ORDER_CONNECT,
			    result->n_connects);
	result->host_ns = host_cpu_ns() - host;
	ask_server(team, result->way, ORDER_MARK);
	result->daemon_ns = process_cpu_ns(options->daemon_pid) - daemon;
	result->server_ns = shared->server[result->way].cpu_ns - server;
	result->clients_ns = result->elapsed_ns = 0;
	for (unsigned i = 0; i < result->n_clients; i++) {
		const struct report *report = &shared->clients[result->way][i];

		result->clients_ns += report->cpu_ns;
		if (report->ended_ns - start > result->elapsed_ns)
			result->elapsed_ns = report->ended_ns - start;
	}
}

static void take_turn(const struct options *options, struct result *result)
{
	result->n_connects = n_connects_each(options, result->round, result->n_clients);
	measure_connects(options, result);
	if (result->round == 0)
		return;
	result_connects(result);
	fprintf(stderr, "round %u of %u, %u client%s, QPs: %s, %s: %u connections in %.1f s\n",
		result->round, options->n_rounds, result->n_clients,
		result->n_clients == 1 ? "" : "s", qps_names[result->qps], way_names[result->way],
		result->n_clients * result->n_connects, (double)result->elapsed_ns / 1e9);
}

/* Round 0 warms up: its results are not written. */
static void run_round(const struct options *options, unsigned round, unsigned n_clients,
		      enum qps qps)
{
	enum way ways[N_WAYS];
	unsigned n_ways = choose_ways(options, ways);

	for (unsigned place = 0; place < n_ways; place++)
		take_turn(options, &(struct result){
					   .round = round,
					   .place = place,
					   .way = ways[(place + round) % n_ways],
					   .qps = qps,
					   .n_clients = n_clients,
				   });
}

static void run_level(const struct options *options, unsigned n_clients)
{
	enum way ways[N_WAYS];
	unsigned n_ways = choose_ways(options, ways);

	for (unsigned i = 0; i < n_ways; i++)
		start_team(&teams[ways[i]], options, ways[i], n_clients);
	for (unsigned round = 0; round <= options->n_rounds; round++)
		for (enum qps qps = 0; qps < N_QPS; qps++)
			if (options->qps[qps])
				run_round(options, round, n_clients, qps);
	for (unsigned i = 0; i < n_ways; i++)
		end_team(&teams[ways[i]], ways[i], n_clients);
}

/*
 * Measures one client alone: requests that make the broker do nothing (WAY_LIBRARY), and the data path. The ways
 * alternate in short turns, because the host's speed varies more than the ways differ.
 */
static void measure_alone(const struct options *options, const struct result *result)
{
	struct team *team = &teams[result->way];

	if (result->way == WAY_LIBRARY && options->n_rpcs > 0) {
		ask_clients(team, result->way, 1, ORDER_RPC, options->n_rpcs);
		if (result->round > 0)
			result_rpc(result);
	}
	if (options->n_pings > 0) {
		ask_clients(team, result->way, 1, ORDER_DATA, options->n_pings);
		ask_server(team, result->way, ORDER_MARK);
		if (result->round > 0)
			result_data(result, shared->clients[result->way][0].write_ns);
	}
}

static void run_alone(const struct options *options)
{
	enum way ways[N_WAYS];
	unsigned n_ways = choose_ways(options, ways);

	for (unsigned i = 0; i < n_ways; i++)
		start_team(&teams[ways[i]], options, ways[i], 1);
	for (unsigned round = 0; round <= options->n_data_rounds; round++)
		for (unsigned place = 0; place < n_ways; place++)
			measure_alone(options, &(struct result){
						       .round = round,
						       .place = place,
						       .way = ways[(place + round) % n_ways],
						       .n_clients = 1,
					       });
	for (unsigned i = 0; i < n_ways; i++)
		end_team(&teams[ways[i]], ways[i], 1);
}

int run(const struct options *options)
{
	unsigned n_clients = 1, n_samples = MIN_CONNECTS;
	int r;

	for (unsigned i = 0; i < options->n_levels; i++) {
		unsigned n = n_connects_each(options, 1, options->levels[i]);

		if (options->levels[i] > n_clients)
			n_clients = options->levels[i];
		if (n > n_samples)
			n_samples = n;
	}
	if (options->n_pings > n_samples)
		n_samples = options->n_pings;
	if (options->n_rpcs > n_samples)
		n_samples = options->n_rpcs;

	r = result_open(options);
	if (r < 0)
		return r;
	share_memory(options, n_clients, n_samples);
	for (unsigned i = 0; i < options->n_levels; i++)
		run_level(options, options->levels[i]);
	if (options->n_data_rounds > 0)
		run_alone(options);
	return result_close();
}
