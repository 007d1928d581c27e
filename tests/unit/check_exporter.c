/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/exporter.h"

/* The replies of rdmabroker-exporter. */

START_TEST(serves_on_a_path)
{
	struct rdmabroker *session;
	struct stat st;

	start(service.metrics);
	assert_logged("Serving metrics on ");
	ck_assert_int_eq(stat(service.metrics, &st), 0);
	ck_assert_uint_eq(st.st_mode, S_IFSOCK | 0660);
	session = open_session(0);
	rdmabroker_destroy_id(resolve(session, 1));
	ask(service.metrics, GET_1_0);
	assert_metrics();
	/* One session is the test's, the other is the exporter's. */
	ck_assert_uint_eq(value_of("rdmabroker_sessions"), 2);
	assert_has(answer.body, "rdmabroker_phase_seconds_count{phase=\"resolve addr\"} 1\n");
	ask(service.metrics, GET_1_1);
	assert_metrics();
	ck_assert_uint_eq(value_of("rdmabroker_sessions"), 2);
	rdmabroker_close(session);
	stop();
	ck_assert_int_eq(access(service.metrics, F_OK), -1);
}
END_TEST

START_TEST(serves_on_tcp)
{
	static const char *const hosts[] = { "127.0.0.1", "[::1]" };

	start_broker();
	for (size_t i = 0; i < 2; i++) {
		const char *address = free_address(hosts[i]);

		if (!*address) {
			printf("no loopback %s on this machine\n", hosts[i]);
			continue;
		}
		start_exporter(address);
		assert_served_on(address);
		stop_exporter();
		assert_refused_on(address);
		/*
		 * The previous exporter's connections are still in TIME_WAIT. The next exporter can listen
		 * nevertheless.
		 */
		start_exporter(address);
		assert_served_on(address);
		/* Without a host, the exporter listens on every address of both families. */
		stop_exporter();
		start_exporter(strrchr(address, ':'));
		assert_served_on(address);
		stop_exporter();
	}
	stop_broker();
}
END_TEST

START_TEST(serves_on_several_addresses)
{
	char address[64];

	strcpy(address, free_address("127.0.0.1"));
	start_broker();
	start_exporter_with(
		(const char *const[]){ "--listen", address, "--listen", service.metrics, NULL });
	assert_served_on(address);
	assert_served_on(service.metrics);
	stop();
}
END_TEST

static bool is_about_sessions(const char *line)
{
	static const char *const names[] = {
		"rdmabroker_decisions_total{operation=\"session\"",
		"rdmabroker_decisions_total{operation=\"observe\"",
		"rdmabroker_sessions ",
		"rdmabroker_fds ",
		"rdmabroker_rule_decisions_total{",
		"rdmabroker_rule_objects{",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(line, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/*
 * After its own metrics, the exporter serves the same text as rdmabrokerctl prints. Only metrics that the requests
 * themselves change can differ.
 */
START_TEST(serves_what_the_program_prints)
{
	char *a, *b, *line, *other;

	start(service.metrics);
	ck_assert_int_eq(ctl("metrics"), 0);
	ask(service.metrics, GET_1_0);
	assert_metrics();
	line = strtok_r(got.out, "\n", &a);
	other = strtok_r(strstr(answer.body, "# TYPE rdmabroker_build "), "\n", &b);
	for (unsigned n = 0; line || other; n++) {
		ck_assert_msg(line && other, "%s | %s", line ?: "", other ?: "");
		if (!is_about_sessions(line))
			ck_assert_str_eq(line, other);
		line = strtok_r(NULL, "\n", &a);
		other = strtok_r(NULL, "\n", &b);
	}
	stop();
}
END_TEST

START_TEST(many_rules_have_many_pages)
{
	char last[256];

	write_many_rules("0.rules");
	start(service.metrics);
	snprintf(last, sizeof(last), "rdmabroker_rule_objects{file=\"%s/0.rules\",line=\"%u\"} 0\n",
		 service.policy, MANY_RULES);
	ask(service.metrics, GET_1_1);
	assert_metrics();
	assert_has(answer.body, last);
	ask(service.metrics, GET_1_0);
	assert_metrics();
	assert_has(answer.body, last);
	ck_assert_uint_gt(answer.len, 3 << 20);
	stop();
}
END_TEST

START_TEST(other_requests_are_refused)
{
	static const struct {
		const char *request;
		unsigned status;
		const char *header;
	} cases[] = {
		{ "GET /x HTTP/1.1\r\nHost: x\r\n\r\n", 404, "" },
		{ "GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", 404, "" },
		{ "GET //metrics HTTP/1.1\r\nHost: x\r\n\r\n", 404, "" },
		{ "GET /metrics/../metrics HTTP/1.1\r\nHost: x\r\n\r\n", 404, "" },
		{ "GET /metrics%00 HTTP/1.1\r\nHost: x\r\n\r\n", 200, "" },
		{ "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404, "" },
		{ "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405,
		  "\r\nAllow: GET, HEAD\r\n" },
		{ "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 405,
		  "\r\nAllow: GET, HEAD\r\n" },
		{ "PUT /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n", 405,
		  "\r\nAllow: GET, HEAD\r\n" },
		{ "DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405, "\r\nAllow: GET, HEAD\r\n" },
		{ "OPTIONS /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405, "\r\nAllow: GET, HEAD\r\n" },
		{ "get /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405, "\r\nAllow: GET, HEAD\r\n" },
		{ "GET /metrics HTTP/1.1\r\n\r\n", 400, "" },
	};

	start(service.metrics);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask(service.metrics, cases[i].request);
		ck_assert_msg(answer.status == cases[i].status, "%s: %s", cases[i].request,
			      answer.text);
		assert_has(answer.text, cases[i].header);
		if (cases[i].status != 200)
			assert_lacks(answer.body, "rdmabroker_");
	}
	ask(service.metrics, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	ck_assert_uint_eq(answer.status, 200);
	assert_has(answer.text, "\r\nContent-Type: text/html; charset=utf-8\r\n");
	assert_has(answer.body, "<a href=\"/metrics\">");
	ask(service.metrics, "GET /metrics?name=x HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_prometheus();
	ask(service.metrics, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n" OPENMETRICS "\r\n");
	ck_assert_uint_eq(answer.status, 200);
	assert_has(answer.text, "\r\nContent-Type: application/openmetrics-text");
	ck_assert_str_eq(answer.body, "");
	/* The exporter ignores the body of a request, even if it has to request new metrics from the broker. */
	await_up(1);
	await_stale();
	ask(service.metrics,
	    "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n" OPENMETRICS "\r\nabcde");
	assert_metrics();
	stop();
}
END_TEST

START_TEST(the_scraper_chooses_the_format)
{
	static const struct {
		const char *accept;
		bool openmetrics;
	} cases[] = {
		{ "application/openmetrics-text", true },
		{ "application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
		  "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		  true },
		{ "text/plain;q=0.5 , Application/OpenMetrics-Text; version=1.0.0; q=0.6", true },
		{ "application/openmetrics-text;q=0.2,text/plain;version=0.0.4;q=0.3", false },
		{ "application/openmetrics-text;q=0", false },
		{ "application/openmetrics-text;q=0.000, */*", false },
		{ "text/plain;version=0.0.4", false },
		{ "*/*", false },
		{ "", false },
		{ ",,;q=,;;q=9999999999999999999", false },
	};
	char request[512];

	start(service.metrics);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(request, sizeof(request),
			 "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", cases[i].accept);
		ask(service.metrics, request);
		if (cases[i].openmetrics)
			assert_metrics();
		else
			assert_prometheus();
		assert_has(answer.body, "\nrdmabroker_up 1\n");
		assert_has(answer.body, "\nrdmabroker_build_info{version=");
		assert_has(answer.body, cases[i].openmetrics ?
						"\n# TYPE rdmabroker_decisions counter\n" :
						"\n# TYPE rdmabroker_decisions_total counter\n");
		assert_has(answer.body, cases[i].openmetrics ?
						"\n# TYPE rdmabroker_build info\n" :
						"\n# TYPE rdmabroker_build_info gauge\n");
	}
	ask(service.metrics, "GET /metrics HTTP/1.0\r\n\r\n");
	assert_prometheus();
	stop();
}
END_TEST

START_TEST(requests_share_an_answer)
{
	enum { N = 12 };
	unsigned n_sockets;
	unsigned long n_fetches;
	int64_t end = patience_end();
	struct timespec begin;
	bool was_in_time;
	int fds[N];

	start(service.metrics);
	n_sockets = idle_sockets();
	do {
		await_stale();
		n_fetches = value_of("rdmabroker_exporter_fetches_total");
		kill(service.broker, SIGSTOP);
		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (size_t i = 0; i < N; i++) {
			fds[i] = dialled(service.metrics);
			send_text(fds[i], GET_1_1);
		}
		await_sockets(n_sockets + N);
		kill(service.broker, SIGCONT);
		was_in_time = elapsed_ms(&begin) < 1000;
		for (size_t i = 0; i < N; i++) {
			read_answer(fds[i]);
			assert_metrics();
			if (!was_in_time)
				continue;
			ck_assert_uint_eq(value_of("rdmabroker_up"), 1);
			ck_assert_uint_eq(value_of("rdmabroker_exporter_fetches_total"),
					  n_fetches + 1);
		}
		/* The exporter waits for the broker for two seconds. A slow machine can take longer to ask. */
	} while (!was_in_time && patience_now_ms() < end);
	if (!was_in_time)
		WAITED("%d requests within a second", N);

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (size_t i = 0; i < 50; i++)
		ask(service.metrics, GET_1_1);
	ck_assert_uint_le(value_of("rdmabroker_exporter_fetches_total"),
			  n_fetches + 2 + elapsed_ms(&begin) / 1000);
	stop();
}
END_TEST

/*
 * A slow reader gets the whole text that it requested, although the rules have changed since. A request one second
 * later gets the new text.
 */
START_TEST(a_reload_leaves_a_text_whole)
{
	int64_t end = patience_end(), begin;
	unsigned n_sockets;
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/0.rules", service.policy);
	write_many_rules("0.rules");
	start(service.metrics);
	for (;;) {
		n_sockets = idle_sockets();
		begin = patience_now_ms();
		fd = dialled(service.metrics);
		send_text(fd, GET_1_1);
		await_sockets(n_sockets + 1);
		assert_served_on(service.metrics);
		ck_assert_int_eq(unlink(path), 0);
		reload_broker();
		read_answer(fd);
		/* The exporter gives each connection ten seconds. A slow machine can take longer to get here. */
		if (answer.is_whole || patience_now_ms() - begin < 10000)
			break;
		if (patience_now_ms() > end)
			WAITED("a reload within the ten seconds of a connection");
		write_many_rules("0.rules");
		reload_broker();
		await_stale();
	}
	assert_metrics();
	ck_assert_uint_eq(value_of("rdmabroker_rules"), MANY_RULES + 2);
	await_stale();
	assert_served_on(service.metrics);
	ck_assert_uint_eq(value_of("rdmabroker_rules"), 2);
	await_sockets(n_sockets);
	stop();
}
END_TEST

UNIT_MAIN("exporter", set_up_service, tear_down_service, serves_on_a_path, serves_on_tcp,
	  serves_on_several_addresses, serves_what_the_program_prints, many_rules_have_many_pages,
	  other_requests_are_refused, the_scraper_chooses_the_format, requests_share_an_answer,
	  a_reload_leaves_a_text_whole)
