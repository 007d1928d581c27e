/* SPDX-License-Identifier: BSD-2-Clause */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/host/host.h"

/*
 * Compares a request that makes the daemon do nothing with an echo of the same size. WAY_BYTES, WAY_WIRE and
 * WAY_LIBRARY add the daemon, packing and unpacking, and the library to the echo, one by one.
 */

#define CALLS 300 /* measured for each way in each round; fewer if TURN_NS has passed */
#define TURN_NS 100000000
#define RPC_TARGET 1.5

enum way {
	WAY_ECHO,
	WAY_BYTES, /* requests to the daemon, with the same bytes each time */
	WAY_WIRE, /* requests to the daemon, packed and unpacked each time */
	WAY_LIBRARY,
	_WAY_MAX,
};

static const char *const names[] = {
	[WAY_ECHO] = "a bare echo",
	[WAY_BYTES] = "the daemon, ready-made bytes",
	[WAY_WIRE] = "the daemon, packed and unpacked by hand",
	[WAY_LIBRARY] = "the daemon, by the library",
};

static struct {
	int echo, wire;
	pid_t echo_pid;
	struct message request, reply;
	uint32_t serial;
	struct rdmabroker *session;
	struct rdmabroker_id *id;
} rpc;

static noreturn void echo(int fd, size_t reply_len)
{
	uint8_t buf[16384];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		if (send(fd, buf, reply_len, MSG_NOSIGNAL) < 0)
			break;
	_exit(EXIT_SUCCESS);
}

static void start_echo(size_t reply_len)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair: %m");
	fflush(NULL);
	rpc.echo_pid = fork();
	if (rpc.echo_pid < 0)
		die("fork: %m");
	if (rpc.echo_pid == 0) {
		close(pair[0]);
		echo(pair[1], reply_len);
	}
	close(pair[1]);
	rpc.echo = pair[0];
}

static void ask(enum way way)
{
	struct message request, reply;
	int value;

	switch (way) {
	case WAY_ECHO:
		wire_exchange(rpc.echo, &rpc.request, &reply);
		break;
	case WAY_BYTES:
		wire_exchange(rpc.wire, &rpc.request, &reply);
		break;
	case WAY_WIRE:
		wire_pack_get_option(&request, ++rpc.serial, 1);
		wire_exchange(rpc.wire, &request, &reply);
		wire_check_reply(&reply, rpc.serial);
		break;
	default:
		must(rdmabroker_get_option(rpc.id, RDMABROKER_OPTION_TOS, &value), "get_option");
	}
}

/* Returns the median of a call, in us. */
static double run_turn(enum way way)
{
	uint64_t begin = now_ns();
	double us[CALLS];
	size_t n = 0;

	for (int i = 0; i < CALLS / 10; i++)
		ask(way);
	while (n == 0 || (n < CALLS && now_ns() - begin < TURN_NS)) {
		uint64_t start = now_ns();

		ask(way);
		us[n++] = (double)(now_ns() - start) / 1000;
	}
	return median_of(us, n);
}

static void run(const struct host_options *options, const struct daemon *daemon, const int *cpus,
		const char *where)
{
	static struct figure figures[_WAY_MAX];
	char name[96], detail[64];
	struct spread ratio;

	cpus_pin(0, cpus[0]);
	cpus_pin(daemon->pid, cpus[1]);
	cpus_pin(rpc.echo_pid, cpus[1]);
	for (int way = 0; way < _WAY_MAX; way++)
		figures[way].n = 0;
	for (unsigned round = 0; round < options->rounds; round++)
		for (int way = 0; way < _WAY_MAX; way++)
			figures[way].rounds[figures[way].n++] = run_turn((enum way)way);

	printf("A request that does nothing, %s: %zu bytes there, %zu back; us\n", where,
	       rpc.request.len, rpc.reply.len);
	for (int way = 0; way < _WAY_MAX; way++) {
		double us = spread_of(&figures[way]).median;

		ratio = ratio_of(&figures[way], &figures[WAY_ECHO]);
		printf("  %-42s %8.2f  %5.2f (%.2f-%.2f)\n", names[way], us, ratio.median,
		       ratio.low, ratio.high);
		snprintf(name, sizeof(name), "rpc, %s: %s", where, names[way]);
		result_add(name, "us", us);
	}
	printf("\n");
	fflush(stdout);
	snprintf(detail, sizeof(detail), "(%.2f-%.2f)", ratio.low, ratio.high);
	snprintf(name, sizeof(name), "rpc, %s: the library to a bare echo", where);
	result_add_target(name, "ratio", ratio.median, RPC_TARGET, detail);
}

void measure_rpc(const struct host_options *options)
{
	struct daemon daemon;
	cpu_set_t all;
	int cpus[2], status;

	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		die("sched_getaffinity: %m");
	cpus_find(&all, cpus);
	daemon_start(&daemon);
	rpc.session = open_session(daemon.place.socket, RDMABROKER_FAIL_BY_EVENT);
	must(rdmabroker_create_id(rpc.session, RDMABROKER_PS_TCP, NULL, &rpc.id), "create_id");
	rpc.wire = wire_open(daemon.place.socket);
	wire_create_id(rpc.wire, 1);
	/* Packed, these serials have the same size as those of the library. */
	rpc.serial = 1000;
	wire_pack_get_option(&rpc.request, rpc.serial, 1);
	wire_exchange(rpc.wire, &rpc.request, &rpc.reply);
	wire_check_reply(&rpc.reply, rpc.serial);
	start_echo(rpc.reply.len);

	run(options, &daemon, (const int[]){ cpus[0], cpus[0] }, "one CPU for both");
	if (cpus[1] >= 0)
		run(options, &daemon, cpus, "a CPU for each");
	else
		printf("There is one CPU: a CPU for each is not measured.\n\n");

	if (sched_setaffinity(0, sizeof(all), &all) < 0)
		die("sched_setaffinity: %m");
	close(rpc.echo);
	if (waitpid(rpc.echo_pid, &status, 0) < 0)
		die("waitpid: %m");
	close(rpc.wire);
	rdmabroker_close(rpc.session);
	daemon_stop(&daemon);
}
