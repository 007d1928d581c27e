/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/http.h"

/* MetricsListen=: those who ask badly, slowly, or too many at a time. */

static void flood(int fd, size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	char text[4096];

	memset(text, 'a', sizeof(text));
	for (size_t sent = 0; sent < n;) {
		ssize_t k;

		ck_assert_int_eq(poll(&p, 1, T), 1);
		k = send(fd, text, sizeof(text), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (k < 0 && errno != EAGAIN)
			return;
		sent += k > 0 ? (size_t)k : 0;
	}
}

START_TEST(what_is_no_request_ends)
{
	static const char *const begins[] = {
		"",
		"\r\n",
		"GET ",
		"GET /",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ",
		"\x16\x03\x01\x02",
		"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz",
	};
	enum { N = sizeof(begins) / sizeof(begins[0]) };
	int flooding[N], ended[N];
	unsigned n_fds;

	start(daemon_.metrics);
	n_fds = idle_fds();
	for (size_t i = 0; i < N; i++) {
		flooding[i] = dialled(daemon_.metrics);
		send_text(flooding[i], begins[i]);
		flood(flooding[i], 1 << 20);
		ended[i] = dialled(daemon_.metrics);
		send_text(ended[i], begins[i]);
		shutdown(ended[i], SHUT_WR);
		assert_served_on(daemon_.metrics);
	}
	/* libmicrohttpd does not see every end that comes with the last byte; there is the deadline. */
	for (size_t i = 0; i < N; i++) {
		read_answer(flooding[i], 10000 + T);
		ck_assert_msg(answer.status != 200, "%s", answer.text);
		read_answer(ended[i], 10000 + T);
		ck_assert_msg(answer.status != 200, "%s", answer.text);
	}
	await_fds(n_fds);
	assert_serves();
	stop();
}
END_TEST

static unsigned elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned)((now.tv_sec - since->tv_sec) * 1000 +
			  (now.tv_nsec - since->tv_nsec) / 1000000);
}

/* What the daemon has computed so far. */
static unsigned cpu_ms(void)
{
	unsigned long user, system;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", daemon_.pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f,
				"%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
				&user, &system),
			 2);
	fclose(f);
	return (unsigned)((user + system) * 1000 / (unsigned long)sysconf(_SC_CLK_TCK));
}

/* One says nothing, one a letter now and then, one asks and does not read: nobody waits for them. */
START_TEST(the_slow_have_ten_seconds)
{
	struct pollfd silent = { .events = POLLIN }, slow = { .events = POLLIN };
	struct timespec begin;
	unsigned n_fds, cpu;
	int deaf;

	write_many_rules();
	start(daemon_.metrics);
	n_fds = idle_fds();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	silent.fd = dialled(daemon_.metrics);
	slow.fd = dialled(daemon_.metrics);
	deaf = dialled(daemon_.metrics);
	send_text(silent.fd, "G");
	send_text(slow.fd, "GET /");
	send_text(deaf, GET_1_0);
	await_fds(n_fds + 3);
	assert_serves();
	ask(daemon_.metrics, GET_1_0);
	assert_metrics();
	cpu = cpu_ms();

	while (poll(&slow, 1, 500) == 0) {
		ck_assert_uint_lt(elapsed_ms(&begin), 10000 + T);
		send_text(slow.fd, "a");
	}
	ck_assert_uint_ge(elapsed_ms(&begin), 9000);
	/* Nor does the daemon turn round and round for them. */
	ck_assert_uint_lt(cpu_ms() - cpu, 1000);
	read_answer(slow.fd, T);
	ck_assert_uint_eq(answer.len, 0);
	read_answer(silent.fd, T);
	ck_assert_uint_eq(answer.len, 0);
	await_fds(n_fds);
	/* What lay in the socket's buffer. */
	read_answer(deaf, T);
	ck_assert_uint_eq(answer.status, 200);
	assert_lacks(answer.body, "# EOF");
	stop();
}
END_TEST

START_TEST(there_are_sixteen_at_a_time)
{
	unsigned n_fds;
	int fds[40];

	start(daemon_.metrics);
	n_fds = idle_fds();
	for (size_t i = 0; i < 40; i++)
		fds[i] = dialled(daemon_.metrics);
	await_fds(n_fds + 16);
	send_text(fds[16], GET_1_1);
	for (int i = 0; i < 3; i++)
		assert_serves();
	await_fds(n_fds + 16);
	/* Those who wait get their turns, in their order. */
	close(fds[3]);
	read_answer(fds[16], T);
	assert_metrics();
	for (size_t i = 0; i < 40; i++)
		if (i != 3 && i != 16)
			close(fds[i]);
	await_fds(n_fds);
	assert_served_on(daemon_.metrics);
	/* And an end of the daemon is not held up by those who are there. */
	for (size_t i = 0; i < 40; i++)
		fds[i] = dialled(daemon_.metrics);
	await_fds(n_fds + 16);
	stop();
	for (size_t i = 0; i < 40; i++)
		close(fds[i]);
}
END_TEST

/* It says so, waits a second, and does not turn round and round. */
START_TEST(descriptors_run_out)
{
	struct rlimit old, none;
	int fd;

	start(daemon_.metrics);
	ck_assert_int_eq(prlimit(daemon_.pid, RLIMIT_NOFILE, NULL, &old), 0);
	none = (struct rlimit){ 0, old.rlim_max };
	ck_assert_int_eq(prlimit(daemon_.pid, RLIMIT_NOFILE, &none, NULL), 0);
	fd = dialled(daemon_.metrics);
	send_text(fd, GET_1_1);
	assert_logged("Cannot accept who asks for metrics: Too many open files. Trying again in a "
		      "second.");
	ck_assert_int_eq(prlimit(daemon_.pid, RLIMIT_NOFILE, &old, NULL), 0);
	read_answer(fd, T);
	assert_metrics();
	stop();
}
END_TEST

UNIT_MAIN("http_hostile", set_up_daemon, tear_down_daemon, what_is_no_request_ends,
	  the_slow_have_ten_seconds, there_are_sixteen_at_a_time, descriptors_run_out)
