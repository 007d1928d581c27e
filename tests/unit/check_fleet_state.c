/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/rdmabroker-admin.h"
#include "tests/unit/fleetagent.h"

/* The state of a host, as rdmabroker-fleet keeps it in etcd. */

START_TEST(the_state_goes_with_the_agent)
{
	if (!begin())
		return;
	start_agent();
	await_state("host", "node7");
	stop_agent();
	await_no_state();
	/* An agent that is killed: the lease expires. */
	start_agent();
	await_state("host", "node7");
	kill(agent, SIGKILL);
	waitpid(agent, NULL, 0);
	agent = 0;
	await_no_state();
}
END_TEST

/* A host that was away, and was forgotten, is known again when it is back. */
START_TEST(a_forgotten_host_returns)
{
	struct etcd_range *range;

	if (!begin())
		return;
	start_agent();
	await_state("host", "node7");
	kill(agent, SIGSTOP);
	await_no_state();
	must(etcd, etcd_delete(etcd, "/rdmabroker/known/node7", false, NULL));
	kill(agent, SIGCONT);
	await_state("host", "node7");
	stop_agent();
	await_no_state();
	must(etcd, etcd_range(etcd, "/rdmabroker/known/node7", false, 1, &range));
	ck_assert_uint_eq(range->n, 1);
	etcd_range_free(range);
}
END_TEST

START_TEST(the_broker)
{
	char time[32];

	if (!begin())
		return;
	start_agent();
	await_state("daemon.answers", "false");
	assert_has(get("daemon.error"), "no broker answers");
	start_broker();
	await_state("daemon.answers", "true");
	ck_assert_str_eq(get("daemon.sessions"), "1");
	ck_assert_str_eq(get("daemon.listeners"), "0");
	ck_assert(json_is_array(json_object_get(state, "listeners")));
	ck_assert_str_eq(get("listeners_left_out"), "0");
	ck_assert(json_is_array(json_object_get(state, "refusals")));
	/* The state is written again and again, also without a change. */
	strcpy(time, get("time"));
	while (strcmp(get("time"), time) == 0) {
		if (!next_state(patience_end()))
			WAITED("a later time than %s", time);
	}
	stop_broker();
	await_state("daemon.answers", "false");
	start_broker();
	await_state("daemon.answers", "true");
	assert_logged(2, "Cannot get the state of the broker: ");
	assert_logged(2, "The broker answers.");
	stop_agent();
	stop_broker();
}
END_TEST

static int start_listening(struct rdmabroker *session, uint16_t port)
{
	const struct sockaddr_in addr = { .sin_family = AF_INET,
					  .sin_port = htons(port),
					  .sin_addr.s_addr = htonl(0x0a090001) };
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, session, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, (const struct sockaddr *)&addr), 0);
	return rdmabroker_listen(id, 0);
}

START_TEST(listeners_and_refusals)
{
	const unsigned n = 600, first = 20000;
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct rdmabroker *session;
	const json_t *one, *list;
	size_t shown;

	if (!begin())
		return;
	write_text(path("policy.d/50.rules"), "reject listen port 7472\nallow any\n");
	write_text(path("conf"), "");
	start_broker();
	options.socket = path("socket");
	ck_assert_int_eq(rdmabroker_open(&options, &session), 0);
	ck_assert_int_eq(start_listening(session, 7471), 0);
	ck_assert_int_lt(start_listening(session, 7472), 0);
	start_agent();
	await_state("daemon.listeners", "1");
	list = json_object_get(state, "listeners");
	ck_assert_uint_eq(json_array_size(list), 1);
	one = json_array_get(list, 0);
	ck_assert_int_eq(json_integer_value(json_object_get(one, "uid")), geteuid());
	if (geteuid() == 0)
		ck_assert_str_eq(json_string_value(json_object_get(one, "user")), "root");
	ck_assert_str_eq(json_string_value(json_object_get(one, "address")), "10.9.0.1");
	ck_assert_int_eq(json_integer_value(json_object_get(one, "port")), 7471);
	list = json_object_get(state, "refusals");
	ck_assert_uint_eq(json_array_size(list), 1);
	one = json_array_get(list, 0);
	assert_has(json_string_value(json_object_get(one, "rule")), "50.rules:1");
	ck_assert_int_eq(json_integer_value(json_object_get(one, "rejected")), 1);
	/* More than the state has room for; next_state() checks its size. */
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(start_listening(session, (uint16_t)(first + i)), 0);
	await_state("daemon.listeners", "601");
	shown = json_array_size(json_object_get(state, "listeners"));
	ck_assert_uint_gt(shown, 100);
	ck_assert_uint_lt(shown, n);
	ck_assert_uint_eq(strtoul(get("listeners_left_out"), NULL, 10), n + 1 - shown);
	rdmabroker_close(session);
	stop_agent();
	stop_broker();
}
END_TEST

/* Two agents for one host: both report, and say so. */
START_TEST(a_host_that_is_there_twice)
{
	if (!begin())
		return;
	start_agent();
	await_state("host", "node7");
	put_text(etcd, HOST, "{\"host\":\"other\"}");
	etcd_watch_free(hosts);
	must(etcd, etcd_watch_new(&hosts, etcd, &(struct etcd_interval){ HOST, false }, 1,
				  put_text(etcd, "/x", "") + 1));
	json_decref(state);
	state = NULL;
	await_state("host", "node7");
	assert_logged(1, "hosts/node7 was changed by somebody else");
	stop_agent();
}
END_TEST

/* The same with two real agents: the state names the machine of the other one. */
START_TEST(two_agents)
{
	char machine[65] = "";
	pid_t first;

	if (!begin())
		return;
	gethostname(machine, sizeof(machine) - 1);
	start_agent();
	await_state("host", "node7");
	ck_assert_str_eq(get("machine"), machine);
	ck_assert_str_eq(get("twin"), "");
	first = agent;
	start_agent();
	await_state("twin", machine);
	kill(first, SIGTERM);
	ck_assert_int_eq(waitpid(first, NULL, 0), first);
	stop_agent();
}
END_TEST

UNIT_MAIN("fleet_state", set_up_fleet, tear_down_fleet, the_state_goes_with_the_agent,
	  a_forgotten_host_returns, the_broker, listeners_and_refusals, a_host_that_is_there_twice,
	  two_agents)
