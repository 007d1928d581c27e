/* SPDX-License-Identifier: BSD-2-Clause */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/host/host.h"

/*
 * Measures what one more connection costs, by the number of open connections. Each number has its own daemon. The
 * numbers take turns on one CPU, so that other work on the host affects all of them.
 */

#define LEVELS_MAX 4
#define STEPS 20 /* connections of each level in each round */
#define WARM_UP 5
#define SCALE_TARGET 1.1

struct level {
	unsigned n_open;
	struct daemon daemon;
	struct ends ends;
	struct connection *connections;
	struct figure connect, disconnect;
};

static void open_level(struct level *level)
{
	daemon_start(&level->daemon);
	ends_open(&level->ends, level->daemon.place.socket);
	level->connections = calloc(level->n_open, sizeof(*level->connections));
	if (!level->connections)
		die("out of memory");
	for (unsigned i = 0; i < level->n_open; i++)
		ends_connect(&level->ends, &level->connections[i]);
}

static void close_level(struct level *level)
{
	ends_close(&level->ends);
	daemon_stop(&level->daemon);
	free(level->connections);
}

static void run_turn(struct level *level)
{
	struct connection connections[STEPS];
	double connect[STEPS], disconnect[STEPS];

	for (int i = 0; i < WARM_UP; i++) {
		ends_connect(&level->ends, &connections[0]);
		ends_disconnect(&level->ends, &connections[0]);
	}
	for (int i = 0; i < STEPS; i++) {
		uint64_t start = now_ns();

		ends_connect(&level->ends, &connections[i]);
		connect[i] = (double)(now_ns() - start) / 1000;
	}
	for (int i = 0; i < STEPS; i++) {
		uint64_t start = now_ns();

		ends_disconnect(&level->ends, &connections[i]);
		disconnect[i] = (double)(now_ns() - start) / 1000;
	}
	level->connect.rounds[level->connect.n++] = median_of(connect, STEPS);
	level->disconnect.rounds[level->disconnect.n++] = median_of(disconnect, STEPS);
}

static void print_row(const struct level *level, const struct level *base)
{
	struct spread connect = ratio_of(&level->connect, &base->connect);
	struct spread disconnect = ratio_of(&level->disconnect, &base->disconnect);
	double connect_us = spread_of(&level->connect).median;
	double disconnect_us = spread_of(&level->disconnect).median;
	char name[96];

	printf("  %12u %9.1f  %4.2f (%.2f-%.2f) %12.1f  %4.2f (%.2f-%.2f)\n", level->n_open,
	       connect_us, connect.median, connect.low, connect.high, disconnect_us,
	       disconnect.median, disconnect.low, disconnect.high);
	snprintf(name, sizeof(name), "connect, %u open", level->n_open);
	result_add(name, "us", connect_us);
	snprintf(name, sizeof(name), "disconnect+destroy, %u open", level->n_open);
	result_add(name, "us", disconnect_us);
}

static void judge(const char *what, const struct level *most, const struct figure *figure,
		  const struct level *base, const struct figure *base_figure)
{
	struct spread ratio = ratio_of(figure, base_figure);
	char name[96], detail[64];

	snprintf(name, sizeof(name), "%s, %u open to %u open", what, most->n_open, base->n_open);
	snprintf(detail, sizeof(detail), "(%.2f-%.2f)", ratio.low, ratio.high);
	result_add_target(name, "ratio", ratio.median, SCALE_TARGET, detail);
}

void measure_scale(const struct host_options *options)
{
	static struct level levels[LEVELS_MAX];
	struct series series[2] = { { .name = "connect" }, { .name = "disconnect+destroy" } };
	const struct level *most;
	unsigned n = 0;
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		die("sched_getaffinity: %m");
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	/* The daemons inherit this affinity. */
	sched_setaffinity(0, sizeof(one), &one);

	for (unsigned open = 10; open < options->connections && n < LEVELS_MAX - 1; open *= 10)
		levels[n++].n_open = open;
	levels[n++].n_open = options->connections;
	for (unsigned i = 0; i < n; i++)
		open_level(&levels[i]);
	for (unsigned round = 0; round < options->rounds; round++)
		for (unsigned i = 0; i < n; i++)
			run_turn(&levels[i]);

	printf("One more connection, both ends on the host, in one session each; us\n"
	       "  %12s %9s  %-16s %12s\n",
	       "open", "connect", "", "disconnect+destroy");
	for (unsigned i = 0; i < n; i++) {
		print_row(&levels[i], &levels[0]);
		series[0].points[i][0] = series[1].points[i][0] = levels[i].n_open;
		series[0].points[i][1] = spread_of(&levels[i].connect).median;
		series[1].points[i][1] = spread_of(&levels[i].disconnect).median;
		series[0].n = series[1].n = i + 1;
	}
	printf("\n");
	fflush(stdout);
	most = &levels[n - 1];
	judge("connect", most, &most->connect, &levels[0], &levels[0].connect);
	judge("disconnect+destroy", most, &most->disconnect, &levels[0], &levels[0].disconnect);
	result_add_plot(
		"Cost against open connections", "connections open", "us",
		"A connection from create_id to established, and its end, both ends on this "
		"host and above a fake fabric: what the broker and the library do.",
		series, 2);
	for (unsigned i = 0; i < n; i++)
		close_level(&levels[i]);
	sched_setaffinity(0, sizeof(all), &all);
}
