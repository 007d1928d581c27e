/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/object/session.h"
#include "rpc/peer.h"
#include "tests/bench/host/host.h"

#define SPARE_FDS 100 /* descriptors that are open for other reasons */
#define QUIET_MS 1500
#define FDS 2 /* the daemon's descriptors for each session: a socket and a pidfd */

/* Raises RLIMIT_NOFILE. Returns how many sessions the limit allows, at most WANTED. */
static unsigned allow_sessions(unsigned wanted)
{
	rlim_t needed = (rlim_t)wanted * FDS + SPARE_FDS;
	struct rlimit limit;
	unsigned n;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("getrlimit: %m");
	if (limit.rlim_max < needed) {
		struct rlimit more = { .rlim_cur = needed, .rlim_max = needed };

		if (setrlimit(RLIMIT_NOFILE, &more) == 0)
			return wanted;
	}
	limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("setrlimit: %m");
	if (limit.rlim_cur >= needed)
		return wanted;
	n = (unsigned)(limit.rlim_cur - SPARE_FDS) / FDS;
	printf("%u sessions instead of %u: the hard limit of descriptors (RLIMIT_NOFILE) is %llu, "
	       "and the daemon needs %d for each.\n",
	       n, wanted, (unsigned long long)limit.rlim_max, FDS);
	return n;
}

/*
 * Waits until the daemon is idle. The daemon updates its status line for systemd up to a second after the last
 * session.
 */
static void await_quiet(const struct daemon *daemon)
{
	struct daemon_work before, after;

	daemon_get_work(daemon, &after);
	for (int i = 0; i < DEADLINE_MS / QUIET_MS; i++) {
		before = after;
		poll(NULL, 0, QUIET_MS);
		daemon_get_work(daemon, &after);
		if (after.cpu_ns == before.cpu_ns)
			return;
	}
	die("the daemon does not come to rest");
}

void measure_idle(const struct host_options *options)
{
	unsigned n = allow_sessions(options->connections);
	int *fds = calloc(n, sizeof(*fds));
	struct daemon_memory before, after;
	struct daemon_work idle, end;
	struct daemon daemon;
	double cpu_us, wakeups, heap;
	char name[96];

	if (!fds)
		die("out of memory");
	daemon_start(&daemon);
	close(wire_open(daemon.place.socket));
	before = daemon_get_memory(&daemon);
	for (unsigned i = 0; i < n; i++)
		fds[i] = wire_open(daemon.place.socket);
	after = daemon_get_memory(&daemon);
	await_quiet(&daemon);
	daemon_get_work(&daemon, &idle);
	poll(NULL, 0, (int)options->idle_s * 1000);
	daemon_get_work(&daemon, &end);
	daemon_stop(&daemon);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	free(fds);

	cpu_us = (double)(end.cpu_ns - idle.cpu_ns) / 1000;
	wakeups = (double)(end.wakeups - idle.wakeups);
	heap = (double)((after.heap - after.fake) - (before.heap - before.fake)) / n;
	printf("%u idle sessions, for %u s\n", n, options->idle_s);
	printf("  %-52s %8.1f\n", "CPU time of the daemon, us", cpu_us);
	printf("  %-52s %8.0f\n", "wakeups of the daemon", wakeups);
	printf("  %-52s %8.0f\n", "heap for each session, bytes", heap);
	printf("  %-52s %8llu\n", "resident memory of the daemon, KiB", end.rss_kb);
	printf("  of which struct session %zu and struct peer %zu for each; the rest is what is "
	       "known of the client, and sd-event's sources.\n\n",
	       sizeof(struct session), sizeof(struct peer));
	fflush(stdout);
	snprintf(name, sizeof(name), "CPU time in %u s, us, %u idle sessions", options->idle_s, n);
	result_add_target(name, "us", cpu_us, 0, NULL);
	snprintf(name, sizeof(name), "wakeups in %u s, %u idle sessions", options->idle_s, n);
	result_add_target(name, "wakeups", wakeups, 0, NULL);
	result_add("memory of a session", "bytes", heap);
}
