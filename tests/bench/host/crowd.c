/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/host/host.h"

/*
 * Measures the daemon's CPU time for a request, and for the end of a session, if many come at the same time: they
 * wait while the daemon is stopped (SIGSTOP).
 */

#define LEVELS 4
#define CROWD_MAX 1000
#define CROWD_ROUNDS 5

static const unsigned levels[LEVELS] = { 1, 10, 100, CROWD_MAX };

static void stop(const struct daemon *daemon)
{
	int status;

	kill(daemon->pid, SIGSTOP);
	if (waitpid(daemon->pid, &status, WUNTRACED) != daemon->pid || !WIFSTOPPED(status))
		die("the daemon does not stop");
}

static uint64_t cpu_of(const struct daemon *daemon)
{
	struct daemon_work work;

	daemon_get_work(daemon, &work);
	return work.cpu_ns;
}

/* Returns us of CPU time for one request. */
static double ask_together(const struct daemon *daemon, const int *fds, unsigned n)
{
	struct message request, reply;
	uint64_t begin;

	stop(daemon);
	begin = cpu_of(daemon);
	wire_pack_get_option(&request, 1000, 1);
	for (unsigned i = 0; i < n; i++)
		wire_send(fds[i], &request);
	kill(daemon->pid, SIGCONT);
	for (unsigned i = 0; i < n; i++) {
		wire_receive(fds[i], &reply);
		wire_check_reply(&reply, 1000);
	}
	return (double)(cpu_of(daemon) - begin) / 1000 / n;
}

/* The daemon has no sessions when it has as many descriptors as at its start. */
static void await_no_sessions(const struct daemon *daemon, unsigned n_fds)
{
	uint64_t deadline = now_ns() + DEADLINE_MS * UINT64_C(1000000);

	while (daemon_count_fds(daemon) > n_fds) {
		if (now_ns() > deadline)
			die("the daemon does not end the sessions of clients that are gone");
		poll(NULL, 0, 1);
	}
}

static double end_together(const struct daemon *daemon, unsigned n_fds, unsigned n)
{
	int fds[CROWD_MAX];
	uint64_t begin;

	for (unsigned i = 0; i < n; i++)
		fds[i] = wire_open(daemon->place.socket);
	stop(daemon);
	begin = cpu_of(daemon);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	kill(daemon->pid, SIGCONT);
	await_no_sessions(daemon, n_fds);
	return (double)(cpu_of(daemon) - begin) / 1000 / n;
}

void measure_crowd(const struct host_options *options)
{
	struct series series[2] = { { .name = "a request" }, { .name = "the end of a session" } };
	double us[CROWD_ROUNDS];
	struct daemon daemon;
	int fds[CROWD_MAX];
	unsigned n_fds;
	char name[96];

	(void)options;
	daemon_start(&daemon);
	for (unsigned i = 0; i < CROWD_MAX; i++) {
		fds[i] = wire_open(daemon.place.socket);
		wire_create_id(fds[i], 1);
	}
	for (int l = 0; l < LEVELS; l++) {
		for (int i = 0; i < CROWD_ROUNDS; i++)
			us[i] = ask_together(&daemon, fds, levels[l]);
		series[0].points[l][0] = levels[l];
		series[0].points[l][1] = median_of(us, CROWD_ROUNDS);
	}
	for (unsigned i = 0; i < CROWD_MAX; i++)
		close(fds[i]);
	daemon_stop(&daemon);

	daemon_start(&daemon);
	n_fds = daemon_count_fds(&daemon);
	close(wire_open(daemon.place.socket));
	await_no_sessions(&daemon, n_fds);
	for (int l = 0; l < LEVELS; l++) {
		for (int i = 0; i < CROWD_ROUNDS; i++)
			us[i] = end_together(&daemon, n_fds, levels[l]);
		series[1].points[l][0] = levels[l];
		series[1].points[l][1] = median_of(us, CROWD_ROUNDS);
	}
	daemon_stop(&daemon);

	printf("Many sessions at the same time, CPU time of the daemon for each; us\n"
	       "  %12s %12s %22s\n",
	       "sessions", "a request", "the end of a session");
	for (int l = 0; l < LEVELS; l++) {
		printf("  %12u %12.1f %22.1f\n", levels[l], series[0].points[l][1],
		       series[1].points[l][1]);
		snprintf(name, sizeof(name), "daemon's CPU time of a request, %u at once",
			 levels[l]);
		result_add(name, "us", series[0].points[l][1]);
		snprintf(name, sizeof(name), "daemon's CPU time of a session's end, %u at once",
			 levels[l]);
		result_add(name, "us", series[1].points[l][1]);
	}
	printf("\n");
	fflush(stdout);
	series[0].n = series[1].n = LEVELS;
	result_add_plot("Cost against sessions at the same time",
			"sessions that ask, or end, at once",
			"us of the daemon's CPU time, for each", "", series, 2);
}
