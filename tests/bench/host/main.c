/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Measures what the broker itself costs, with the fake fabric. A figure is the median of its rounds, and a ratio is
 * the median of the rounds' ratios, with its quartiles in brackets. Memory and idle are measured once.
 */

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/host/host.h"

static const char usage[] =
	"usage: host [--rounds N] [--connections N] [--idle SECONDS] [--json FILE] [WHAT ...]\n"
	"  WHAT is rpc, cost, scale, crowd, memory or idle; all of them where none is named.\n"
	"  --rounds N         rounds of rpc, cost and scale, 21 unless told\n"
	"  --connections N    many connections, many sessions: 10000 unless told\n"
	"  --idle SECONDS     how long the idle daemon is watched, 5 unless told\n"
	"  --json FILE        results, tables, and a plot for tests/bench/report\n";

static const struct measurement {
	const char *name;
	void (*measure)(const struct host_options *options);
} measurements[] = {
	{ "rpc", measure_rpc },     { "cost", measure_cost },     { "scale", measure_scale },
	{ "crowd", measure_crowd }, { "memory", measure_memory }, { "idle", measure_idle },
};

#define N_MEASUREMENTS (sizeof(measurements) / sizeof(measurements[0]))

static unsigned number(const char *text, unsigned long min, unsigned long max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n < min || n > max)
		die("%s: not a number from %lu to %lu", text, min, max);
	return (unsigned)n;
}

static const struct measurement *find(const char *name)
{
	for (size_t i = 0; i < N_MEASUREMENTS; i++)
		if (strcmp(measurements[i].name, name) == 0)
			return &measurements[i];
	die("%s: is none of rpc, cost, scale, crowd, memory, idle", name);
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "connections", required_argument, NULL, 'c' },
		{ "idle", required_argument, NULL, 'i' },
		{ "json", required_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct host_options options = { .rounds = 21, .connections = 10000, .idle_s = 5 };
	const char *json = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "h", long_options, NULL)) >= 0)
		switch (c) {
		case 'r':
			options.rounds = number(optarg, 1, ROUNDS_MAX);
			break;
		case 'c':
			options.connections = number(optarg, 11, 30000);
			break;
		case 'i':
			options.idle_s = number(optarg, 1, 3600);
			break;
		case 'j':
			json = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		default:
			fputs(usage, stderr);
			return EXIT_FAILURE;
		}
	signal(SIGPIPE, SIG_IGN);
	for (int i = optind; i < argc; i++)
		find(argv[i]);
	for (int i = optind; i < argc; i++)
		find(argv[i])->measure(&options);
	for (size_t i = 0; optind == argc && i < N_MEASUREMENTS; i++)
		measurements[i].measure(&options);
	result_print_targets();
	if (json)
		result_write(json);
	return EXIT_SUCCESS;
}
