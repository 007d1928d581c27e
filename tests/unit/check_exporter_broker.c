/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/exporter.h"

/* rdmabroker-exporter with a broker that is absent, restarts, is slow, or does not permit the exporter to observe. */

START_TEST(a_broker_that_is_not_there)
{
	start_exporter(service.metrics);
	/* The scrape succeeds, and reports that the broker is absent. */
	ask(service.metrics, GET_1_1);
	assert_metrics();
	ck_assert_uint_eq(value_of("rdmabroker_up"), 0);
	assert_has(answer.body, "\nrdmabroker_exporter_build_info{version=");
	assert_lacks(answer.body, "rdmabroker_sessions");
	ask(service.metrics, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_prometheus();
	ck_assert_uint_eq(value_of("rdmabroker_up"), 0);
	assert_logged("Cannot get metrics from the broker: no broker answers on ");

	start_broker();
	await_up(1);
	ck_assert_uint_eq(value_of("rdmabroker_sessions"), 1);
	assert_logged("The broker answers.");
	stop();
}
END_TEST

/* While the broker is absent, one line is logged, and not one for each request. */
START_TEST(a_change_is_reported_once)
{
	start(service.metrics);
	await_up(1);
	stop_broker();
	await_up(0);
	await_stale();
	await_up(0);
	await_stale();
	await_up(0);
	start_broker();
	await_up(1);
	ck_assert_uint_eq(n_logged("Cannot get metrics from the broker: "), 1);
	ck_assert_uint_eq(n_logged("The broker answers."), 2);
	stop();
}
END_TEST

/* The first request after a restart gets the metrics, although the session with the old broker has ended. */
START_TEST(a_broker_that_was_restarted)
{
	start(service.metrics);
	await_up(1);
	for (int i = 0; i < 3; i++) {
		stop_broker();
		start_broker();
		await_stale();
		assert_served_on(service.metrics);
		ck_assert_uint_eq(value_of("rdmabroker_sessions"), 1);
	}
	/* After the broker was killed and started again, the first request gets the metrics, too. */
	kill(service.broker, SIGKILL);
	waitpid(service.broker, NULL, 0);
	start_broker();
	await_stale();
	assert_served_on(service.metrics);
	ck_assert_uint_eq(n_logged("Cannot get metrics"), 0);
	stop();
}
END_TEST

static bool has_input(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* The exporter replies without the broker, and before that to requests for pages that need no broker. */
START_TEST(a_broker_that_hangs)
{
	int fd, other;

	start(service.metrics);
	await_up(1);
	await_stale();
	kill(service.broker, SIGSTOP);
	fd = dialled(service.metrics);
	other = dialled(service.metrics);
	send_text(fd, GET_1_1);
	send_text(other, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	AWAIT_INPUT(other, "a page that needs no broker");
	ck_assert(!has_input(fd));
	read_answer(other);
	ck_assert_uint_eq(answer.status, 200);
	read_answer(fd);
	assert_metrics();
	ck_assert_uint_eq(value_of("rdmabroker_up"), 0);
	assert_logged("Cannot get metrics from the broker: the broker did not answer in time.");
	kill(service.broker, SIGCONT);
	await_up(1);
	stop();
}
END_TEST

START_TEST(the_end_waits_for_no_broker)
{
	unsigned n_sockets;
	int fd;

	start(service.metrics);
	n_sockets = idle_sockets();
	await_stale();
	kill(service.broker, SIGSTOP);
	fd = dialled(service.metrics);
	send_text(fd, GET_1_1);
	await_sockets(n_sockets + 1);
	stop_exporter();
	/* It has not waited until the broker counts as absent, when the request would have been answered. */
	read_answer(fd);
	ck_assert_uint_eq(answer.len, 0);
	kill(service.broker, SIGCONT);
	stop_broker();
}
END_TEST

static void copy_program(void)
{
	char command[512];

	snprintf(command, sizeof(command), "cp %s/rdmabroker-exporter %s/librdmabroker.so.2 %s",
		 service.folder, service.folder, harness.dir);
	ck_assert_int_eq(system(command), 0);
	snprintf(service.folder, sizeof(service.folder), "%s", harness.dir);
}

/* The exporter needs a rule that allows it to observe. Without one, the log contains the rule to add. */
START_TEST(the_policy_has_to_permit_it)
{
	char address[64];

	if (geteuid() != 0) {
		fprintf(stderr, "skipped: not root, who alone can be somebody else\n");
		return;
	}
	strcpy(address, free_address("127.0.0.1"));
	copy_program();
	run_as = 65534;
	write_text(service.log, "");
	ck_assert_int_eq(chmod(service.log, 0666), 0);
	write_rules("1.rules", "allow any\n");
	start(address);
	ask(address, GET_1_1);
	assert_metrics();
	ck_assert_uint_eq(value_of("rdmabroker_up"), 0);
	assert_logged("to allow it, add the rule \"allow observe user nobody\" to "
		      "/etc/rdmabroker/policy.d");

	/* This rule is enough: the exporter needs no rule that allows sessions. */
	write_rules("1.rules", "allow observe user nobody\n");
	reload_broker();
	await_stale();
	assert_served_on(address);
	stop();
}
END_TEST

UNIT_MAIN("exporter_broker", set_up_service, tear_down_service, a_broker_that_is_not_there,
	  a_change_is_reported_once, a_broker_that_was_restarted, a_broker_that_hangs,
	  the_end_waits_for_no_broker, the_policy_has_to_permit_it)
