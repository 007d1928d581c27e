/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/http.h"

/* MetricsListen=: what is served. */

START_TEST(serves_on_a_path)
{
	struct rdmabroker *session;
	struct stat st;

	start(daemon_.metrics);
	assert_logged("Metrics are served on ");
	ck_assert_int_eq(stat(daemon_.metrics, &st), 0);
	ck_assert_uint_eq(st.st_mode, S_IFSOCK | 0660);
	session = open_session(0);
	rdmabroker_destroy_id(resolve(session, 1));
	ask(daemon_.metrics, GET_1_0);
	assert_metrics();
	assert_has(answer.body, "\nrdmabroker_sessions 1\n");
	assert_has(answer.body, "rdmabroker_phase_seconds_count{phase=\"resolve addr\"} 1\n");
	assert_lacks(answer.text, "chunked");
	ask(daemon_.metrics, GET_1_1);
	assert_metrics();
	assert_has(answer.body, "\nrdmabroker_sessions 1\n");
	assert_has(answer.text, "chunked");
	rdmabroker_close(session);
	stop();
	ck_assert_int_eq(access(daemon_.metrics, F_OK), -1);
}
END_TEST

START_TEST(serves_on_loopback)
{
	static const char *const hosts[] = { "127.0.0.1", "[::1]" };

	for (size_t i = 0; i < 2; i++) {
		const char *address = free_address(hosts[i]);

		if (!*address) {
			printf("no loopback %s on this machine\n", hosts[i]);
			continue;
		}
		start(address);
		assert_served_on(address);
		stop();
		assert_refused_on(address);
		/* With connections of the last time still known to the kernel. */
		start(address);
		assert_served_on(address);
		stop();
	}
}
END_TEST

/* The same as rdmabrokerctl has it, but for what the asking itself changes. */
START_TEST(serves_what_the_program_prints)
{
	char *a, *b, *line, *other;

	start(daemon_.metrics);
	ck_assert_int_eq(ctl("metrics"), 0);
	ask(daemon_.metrics, GET_1_0);
	assert_metrics();
	line = strtok_r(got.out, "\n", &a);
	other = strtok_r(answer.body, "\n", &b);
	for (unsigned n = 0; line || other; n++) {
		ck_assert_msg(line && other, "%s | %s", line ?: "", other ?: "");
		if (strncmp(line, "rdmabroker_sessions ", 20) != 0 &&
		    strncmp(line, "rdmabroker_fds ", 15) != 0 &&
		    strncmp(line, "rdmabroker_rule_objects{", 24) != 0)
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

	write_many_rules();
	start(daemon_.metrics);
	snprintf(last, sizeof(last), "rdmabroker_rule_objects{file=\"%s/0.rules\",line=\"%u\"} 0\n",
		 daemon_.policy, MANY_RULES);
	ask(daemon_.metrics, GET_1_1);
	assert_metrics();
	assert_has(answer.body, last);
	ask(daemon_.metrics, GET_1_0);
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
		{ "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404, "" },
		{ "GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", 404, "" },
		{ "GET /metrics/../metrics HTTP/1.1\r\nHost: x\r\n\r\n", 404, "" },
		{ "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404, "" },
		{ "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 405,
		  "\r\nAllow: GET, HEAD\r\n" },
		{ "PUT /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n", 405,
		  "\r\nAllow: GET, HEAD\r\n" },
		{ "DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405, "\r\nAllow: GET, HEAD\r\n" },
		{ "get /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405, "\r\nAllow: GET, HEAD\r\n" },
		{ "GET /metrics HTTP/1.1\r\n\r\n", 400, "" },
	};

	start(daemon_.metrics);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask(daemon_.metrics, cases[i].request);
		ck_assert_msg(answer.status == cases[i].status, "%s: %s", cases[i].request,
			      answer.text);
		assert_has(answer.text, cases[i].header);
		assert_lacks(answer.body, "rdmabroker_");
	}
	ask(daemon_.metrics, "GET /metrics?name=x HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_metrics();
	ask(daemon_.metrics, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	ck_assert_uint_eq(answer.status, 200);
	assert_has(answer.text, "\r\nContent-Type: application/openmetrics-text");
	ck_assert_str_eq(answer.body, "");
	stop();
}
END_TEST

/* The text of rules that are no more is not made up to its end. */
START_TEST(reload_cuts_a_text_short)
{
	unsigned n_fds;
	char path[128];
	int fd;

	write_many_rules();
	start(daemon_.metrics);
	n_fds = idle_fds();
	fd = dialled(daemon_.metrics);
	send_text(fd, GET_1_1);
	await_fds(n_fds + 1);
	ask(daemon_.metrics, GET_1_1);
	assert_metrics();
	snprintf(path, sizeof(path), "%s/0.rules", daemon_.policy);
	ck_assert_int_eq(unlink(path), 0);
	reload();
	read_answer(fd, T);
	ck_assert_uint_eq(answer.status, 200);
	ck_assert(!answer.is_whole);
	assert_lacks(answer.body, "# EOF");
	assert_served_on(daemon_.metrics);
	assert_has(answer.body, "\nrdmabroker_rules 1\n");
	await_fds(n_fds);
	stop();
}
END_TEST

UNIT_MAIN("http", set_up_daemon, tear_down_daemon, serves_on_a_path, serves_on_loopback,
	  serves_what_the_program_prints, many_rules_have_many_pages, other_requests_are_refused,
	  reload_cuts_a_text_short)
