/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/fleetctl.h"

/* rdmabroker-fleet with a cluster of three members of etcd, of which some are away. */

#define N 3

static struct member {
	unsigned port, peer_port;
	char endpoint[64];
	pid_t pid; /* 0: not running */
} members[N];

static void run_member(unsigned i)
{
	char name[16], data[256], log[256], peer[64], cluster[256] = "", notify[256];
	size_t len = 0;
	int log_fd;

	snprintf(name, sizeof(name), "m%u", i);
	snprintf(data, sizeof(data), "%s/data%u", etcd_service.dir, i);
	snprintf(log, sizeof(log), "%s/etcd%u.log", etcd_service.dir, i);
	snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", members[i].peer_port);
	for (unsigned k = 0; k < N; k++)
		len += (size_t)snprintf(cluster + len, sizeof(cluster) - len,
					"%sm%u=http://127.0.0.1:%u", k > 0 ? "," : "", k,
					members[k].peer_port);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	snprintf(notify, sizeof(notify), "%s/notify", etcd_service.dir);
	setenv("NOTIFY_SOCKET", notify, 1);
	log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	dup2(log_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	execl("/usr/bin/etcd", "etcd", "--name", name, "--data-dir", data, "--listen-client-urls",
	      members[i].endpoint, "--advertise-client-urls", members[i].endpoint,
	      "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
	      "--initial-cluster", cluster, "--heartbeat-interval=200", "--election-timeout=2000",
	      "--logger=zap", NULL);
	_exit(127);
}

static void start_member(unsigned i)
{
	members[i].pid = fork();
	ck_assert_int_ge(members[i].pid, 0);
	if (members[i].pid == 0)
		run_member(i);
}

/* Waits until N_READY members have said that they serve. */
static void await_ready(unsigned n_ready)
{
	char text[256];
	ssize_t n;

	while (n_ready > 0) {
		AWAIT_INPUT(etcd_service.notify, "%u members of etcd, see %s", n_ready,
			    etcd_service.dir);
		n = recv(etcd_service.notify, text, sizeof(text) - 1, 0);
		ck_assert_int_gt(n, 0);
		text[n] = 0;
		n_ready -= strstr(text, "READY=1") != NULL;
	}
}

static void kill_member(unsigned i)
{
	if (members[i].pid <= 0)
		return;
	kill(members[i].pid, SIGKILL);
	ck_assert_int_eq(waitpid(members[i].pid, NULL, 0), members[i].pid);
	members[i].pid = 0;
}

/* The test's own client uses all members, and begins with the last one. The agent begins with the first one. */
static bool begin_cluster(const char *more)
{
	const struct etcd_interval interval = { "/rdmabroker/hosts/", true };
	const char *endpoints[N];
	const struct etcd_options options = {
		.endpoints = endpoints, .n_endpoints = N, .call_ms = 60000, .answer_max = 1 << 20
	};
	char text[256] = "";
	size_t len = 0;

	if (!begin_without_etcd())
		return false;
	for (unsigned i = 0; i < N; i++) {
		members[i].port = free_port();
		members[i].peer_port = free_port();
		snprintf(members[i].endpoint, sizeof(members[i].endpoint), "http://127.0.0.1:%u",
			 members[i].port);
		endpoints[N - 1 - i] = members[i].endpoint;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? " " : "",
					members[i].endpoint);
	}
	for (unsigned i = 0; i < N; i++)
		start_member(i);
	await_ready(N);
	ck_assert_int_eq(etcd_new(&etcd, &options), 0);
	must(etcd, etcd_watch_new(&hosts, etcd, &interval, 1, put_text(etcd, "/begin", "") + 1));
	configure(text, more);
	return true;
}

static void tear_down_cluster(void)
{
	for (unsigned i = 0; i < N; i++) {
		if (members[i].pid > 0)
			kill(members[i].pid, SIGCONT);
		kill_member(i);
	}
	tear_down_fleet();
}

/* The member that the agent uses is killed. */
START_TEST(a_member_dies)
{
	if (!begin_cluster(""))
		return;
	publish("v1", "allow listen user 1\n");
	publish("v2", "allow listen user 2\n");
	publish("v3", "allow listen user 3\n");
	start_agent();
	await_state("host", "node7");
	kill_member(0);
	roll_out("all", "v1");
	await_state("staged", "v1");
	/* It comes back, and the next one goes. */
	start_member(0);
	await_ready(1);
	kill_member(1);
	roll_out("all", "v2");
	await_state("staged", "v2");
	stop_agent();
	await_no_state();
}
END_TEST

/* It hangs: its connections are there, but nothing comes. The watch would notice after minutes only. */
START_TEST(a_member_hangs)
{
	const char *endpoints[] = { members[0].endpoint, members[1].endpoint };
	const struct etcd_options options = {
		.endpoints = endpoints, .n_endpoints = 2, .call_ms = 10000, .answer_max = 1 << 20
	};
	struct etcd *other;

	if (!begin_cluster(""))
		return;
	publish("v1", "allow listen user 1\n");
	publish("v2", "allow listen user 2\n");
	roll_out("all", "v1");
	start_agent();
	await_state("staged", "v1");
	kill(members[0].pid, SIGSTOP);
	roll_out("all", "v2");
	await_state("staged", "v2");
	/* What may be carried out once only is not sent to another member by itself, but the next call goes there. */
	ck_assert_int_eq(etcd_new(&other, &options), 0);
	ck_assert_int_eq(etcd_put_if(other, "/once", 0, "x", 1, 0, NULL), -ETIMEDOUT);
	ck_assert_int_eq(etcd_put_if(other, "/once", 0, "x", 1, 0, NULL), 0);
	etcd_free(other);
	kill(members[0].pid, SIGCONT);
	stop_agent();
}
END_TEST

/* Without two members nothing can be written, but the agent goes on with what it has. */
START_TEST(most_members_are_away)
{
	if (!begin_cluster(""))
		return;
	publish("v1", "allow listen user 1\n");
	publish("v2", "allow listen user 2\n");
	roll_out("all", "v1");
	start_agent();
	await_state("staged", "v1");
	kill_member(1);
	kill_member(2);
	await_log("Cannot use etcd: ");
	assert_wanted("v1");
	start_member(1);
	await_ready(1);
	roll_out("all", "v2");
	await_state("staged", "v2");
	await_log("etcd can be used again.");
	stop_agent();
}
END_TEST

/* Each endpoint is shown with its own words, in text and in JSON. */
START_TEST(status_without_a_majority)
{
	if (!begin_cluster(""))
		return;
	must_ctl("status");
	assert_has(out, "etcd: 3 of 3 endpoints answer; its database has 0.0 MiB\n");
	kill_member(1);
	kill_member(2);
	AWAIT(ctl("status") == 1 && strstr(out, "no leader"), "no leader in '%s' and '%s'", out,
	      err);
	assert_has(out, "etcd: 1 of 3 endpoints answer; its database has ");
	assert_has(out, ": etcdserver: no leader; most members are away from it\n");
	assert_has(out, members[1].endpoint);
	assert_has(out, members[2].endpoint);
	assert_has(err, "rdmabrokerctl: cannot use etcd: http://");
	ck_assert_int_eq(ctl("status", "--json"), 1);
	assert_has(out, "\"leader\": false");
	assert_has(out, "\"alarms\": \"etcdserver: no leader\"");
	assert_has(out, "\"error\": \"http://");
	/* Nobody is there: no size of a database is known. */
	kill_member(0);
	ck_assert_int_eq(ctl("status"), 1);
	assert_has(out, "etcd: 0 of 3 endpoints answer\n");
}
END_TEST

UNIT_MAIN("fleet_cluster", set_up_fleet, tear_down_cluster, a_member_dies, a_member_hangs,
	  most_members_are_away, status_without_a_majority)
