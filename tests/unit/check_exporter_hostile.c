/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/exporter.h"

/* rdmabroker-exporter with clients that send invalid requests, are slow, or are too many. */

/* Connects to HOST, an address of this host other than loopback. dial() connects to loopback only. */
static int connected(const char *host, const char *port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((in_port_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(inet_pton(AF_INET, host, &in.sin_addr), 1);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

static void flood(int fd, size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	char text[4096];

	memset(text, 'a', sizeof(text));
	for (size_t sent = 0; sent < n;) {
		ssize_t k;

		ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
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
	unsigned n_sockets;

	start(service.metrics);
	n_sockets = idle_sockets();
	for (size_t i = 0; i < N; i++) {
		flooding[i] = dialled(service.metrics);
		send_text(flooding[i], begins[i]);
		flood(flooding[i], 1 << 20);
		ended[i] = dialled(service.metrics);
		send_text(ended[i], begins[i]);
		shutdown(ended[i], SHUT_WR);
		assert_served_on(service.metrics);
	}
	/*
	 * If the end of a connection arrives together with the last byte, libmicrohttpd can miss it. Then the
	 * deadline closes the connection.
	 */
	for (size_t i = 0; i < N; i++) {
		read_answer(flooding[i]);
		ck_assert_msg(answer.status != 200, "%s", answer.text);
		read_answer(ended[i]);
		ck_assert_msg(answer.status != 200, "%s", answer.text);
	}
	await_sockets(n_sockets);
	assert_serves();
	stop();
}
END_TEST

/* Returns the CPU time that the exporter has used so far. */
static unsigned cpu_ms(void)
{
	unsigned long user, system;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", service.exporter);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f,
				"%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
				&user, &system),
			 2);
	fclose(f);
	return (unsigned)((user + system) * 1000 / (unsigned long)sysconf(_SC_CLK_TCK));
}

/* Slow clients do not delay other clients, and are disconnected after ten seconds. */
START_TEST(the_slow_have_ten_seconds)
{
	struct pollfd silent = { .events = POLLIN }, slow = { .events = POLLIN };
	struct timespec begin;
	unsigned n_sockets, cpu;
	int deaf;

	write_many_rules("0.rules");
	start(service.metrics);
	n_sockets = idle_sockets();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	silent.fd = dialled(service.metrics);
	slow.fd = dialled(service.metrics);
	deaf = dialled(service.metrics);
	send_text(silent.fd, "G");
	send_text(slow.fd, "GET /");
	send_text(deaf, GET_1_0);
	await_sockets(n_sockets + 3);
	assert_serves();
	ask(service.metrics, GET_1_0);
	assert_metrics();
	cpu = cpu_ms();

	while (poll(&slow, 1, 500) == 0) {
		ck_assert_uint_lt(elapsed_ms(&begin), 10000 + PATIENCE_MS);
		send_text(slow.fd, "a");
	}
	ck_assert_uint_ge(elapsed_ms(&begin), 9000);
	/* Slow connections must not make the exporter poll in a loop. */
	ck_assert_uint_lt(cpu_ms() - cpu, 1000);
	read_answer(slow.fd);
	ck_assert_uint_eq(answer.len, 0);
	read_answer(silent.fd);
	ck_assert_uint_eq(answer.len, 0);
	await_sockets(n_sockets);
	/* The client that did not read gets the part of its reply that fitted into the socket's buffer. */
	read_answer(deaf);
	ck_assert_uint_eq(answer.status, 200);
	assert_lacks(answer.body, "# EOF");
	stop();
}
END_TEST

/* Returns how many of the N descriptors in FDS have not ended. */
static unsigned count_open(const int *fds, unsigned n)
{
	unsigned n_open = 0;

	for (unsigned i = 0; i < n; i++) {
		struct pollfd p = { .fd = fds[i], .events = POLLIN };

		n_open += poll(&p, 1, 0) == 0;
	}
	return n_open;
}

/* A local program that takes all places and says nothing keeps nobody from the metrics. */
START_TEST(the_silent_have_to_go)
{
	int fds[64];

	start(service.metrics);
	for (size_t i = 0; i < 64; i++) {
		fds[i] = dialled(service.metrics);
		send_text(fds[i], "GET /metrics HTTP/1.1\r\n");
	}
	assert_served_on(service.metrics);
	ck_assert_uint_eq(count_open(fds, 64 - 16), 0);
	for (int i = 0; i < 3; i++)
		assert_serves();
	/* Open connections do not delay the exporter's end. */
	stop();
	for (size_t i = 0; i < 64; i++)
		close(fds[i]);
}
END_TEST

/* Those who have sent a request, and wait for the answer, stay. Those who do not read it have two seconds. */
START_TEST(the_deaf_have_two_seconds)
{
	int fds[16], fd;

	write_many_rules("0.rules");
	start(service.metrics);
	for (size_t i = 0; i < 16; i++) {
		fds[i] = dialled(service.metrics);
		send_text(fds[i], GET_1_0);
		AWAIT_INPUT(fds[i], "the begin of an answer");
	}
	fd = dialled(service.metrics);
	send_text(fd, GET_1_0);
	read_answer(fd);
	assert_metrics();
	for (size_t i = 0; i < 16; i++)
		close(fds[i]);
	stop();
}
END_TEST

/*
 * Without a free descriptor, the exporter cannot accept a connection. It logs the error, and retries after a second.
 */
START_TEST(descriptors_run_out)
{
	struct rlimit old, none;
	int fd;

	start(service.metrics);
	ck_assert_int_eq(prlimit(service.exporter, RLIMIT_NOFILE, NULL, &old), 0);
	none = (struct rlimit){ 0, old.rlim_max };
	ck_assert_int_eq(prlimit(service.exporter, RLIMIT_NOFILE, &none, NULL), 0);
	fd = dialled(service.metrics);
	send_text(fd, GET_1_1);
	assert_logged("Cannot accept a connection, trying again in a second: Too many open "
		      "files.");
	ck_assert_int_eq(prlimit(service.exporter, RLIMIT_NOFILE, &old, NULL), 0);
	read_answer(fd);
	assert_metrics();
	stop();
}
END_TEST

/* If several requests arrive in one piece, the exporter replies to the first and closes the connection. */
START_TEST(a_pipeline_gets_one_answer)
{
	unsigned n_sockets;
	int fd;

	start(service.metrics);
	n_sockets = idle_sockets();
	await_stale();
	for (int i = 0; i < 2; i++) {
		fd = dialled(service.metrics);
		send_text(fd, GET_1_1 GET_1_1 "GET / HTTP/1.1\r\nHost: x\r\n\r\nrubbish");
		read_answer(fd);
		assert_metrics();
	}
	await_sockets(n_sockets);
	stop();
}
END_TEST

/*
 * Each reader keeps a version of the text in memory until its connection times out. The exporter limits the total
 * size of these texts.
 */
START_TEST(slow_readers_have_a_limit)
{
	struct timespec begin;
	bool refused = false;
	unsigned n = 0;
	int fds[16];

	/* The metrics of these rules are 17 MB of text. */
	for (char name[] = "a.rules"; name[0] < 'f'; name[0]++)
		write_many_rules(name);
	start(service.metrics);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (!refused && n < 16 && elapsed_ms(&begin) < 9000) {
		int fd = dialled(service.metrics);
		char text[16] = "";

		fds[n++] = fd;
		send_text(fd, GET_1_1);
		AWAIT_INPUT(fd, "the begin of an answer");
		ck_assert_int_gt(recv(fd, text, sizeof(text) - 1, MSG_PEEK), 12);
		refused = strncmp(text, "HTTP/1.1 503", 12) == 0;
		if (!refused)
			await_stale();
	}
	if (refused) {
		ck_assert_uint_ge(n, 5);
		read_answer(fds[--n]);
		assert_has(answer.body,
			   "Responses to slow clients use too much memory. Try again later.");
	} else {
		fprintf(stderr,
			"skipped: this machine is too busy to make five texts in ten seconds\n");
	}
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	await_sockets(IDLE_SOCKETS);
	ask(service.metrics, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	ck_assert_uint_eq(answer.status, 200);
	stop();
}
END_TEST

/* If clients disconnect while their requests wait for the broker, the exporter closes their sockets. */
START_TEST(the_impatient_leave_nothing)
{
	unsigned n_sockets;
	int fds[16];

	start(service.metrics);
	n_sockets = idle_sockets();
	await_stale();
	kill(service.broker, SIGSTOP);
	for (size_t i = 0; i < 16; i++) {
		fds[i] = dialled(service.metrics);
		send_text(fds[i], GET_1_1);
	}
	await_sockets(n_sockets + 16);
	for (size_t i = 0; i < 16; i++)
		close(fds[i]);
	kill(service.broker, SIGCONT);
	await_sockets(n_sockets);
	assert_served_on(service.metrics);
	stop();
}
END_TEST

/*
 * A remote host has at most four connections, so that it cannot occupy all of them. Loopback has no such limit,
 * because all local programs share its address.
 */
START_TEST(a_host_has_four_connections)
{
	char host[INET_ADDRSTRLEN] = "", address[64];
	struct ifaddrs *list, *at;
	int fds[6], ended = 0;
	size_t open = 0, closed = 0;

	ck_assert_int_eq(getifaddrs(&list), 0);
	for (at = list; at; at = at->ifa_next) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)at->ifa_addr;

		if (in && in->sin_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 != 127)
			inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
	}
	freeifaddrs(list);
	if (!*host) {
		fprintf(stderr, "skipped: this machine has only loopback addresses\n");
		return;
	}
	start_broker();
	strcpy(address, free_address("127.0.0.1"));
	start_exporter(strrchr(address, ':'));
	for (size_t i = 0; i < 6; i++)
		fds[i] = connected(host, strrchr(address, ':') + 1);
	/*
	 * Two are closed at once. Which, is not known: several threads accept, and one that has accepted first can count its
	 * connection last.
	 */
	while (ended < 2) {
		struct pollfd p[6];

		for (size_t i = 0; i < 6; i++)
			p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
		ck_assert_int_gt(poll(p, 6, PATIENCE_MS), 0);
		for (size_t i = 0; i < 6; i++) {
			if (p[i].revents == 0)
				continue;
			close(fds[i]);
			fds[i] = -1;
			ended++;
		}
	}
	ck_assert_int_eq(ended, 2);
	while (fds[open] < 0)
		open++;
	while (fds[closed] >= 0)
		closed++;
	/* Clients of other addresses are served. */
	assert_served_on(address);
	send_text(fds[open], GET_1_1);
	read_answer(fds[open]);
	fds[open] = -1;
	assert_metrics();
	fds[closed] = connected(host, strrchr(address, ':') + 1);
	send_text(fds[closed], GET_1_1);
	read_answer(fds[closed]);
	fds[closed] = -1;
	assert_metrics();
	for (size_t i = 0; i < 6; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	stop();
}
END_TEST

UNIT_MAIN("exporter_hostile", set_up_service, tear_down_service, what_is_no_request_ends,
	  the_slow_have_ten_seconds, the_silent_have_to_go, the_deaf_have_two_seconds,
	  descriptors_run_out, a_pipeline_gets_one_answer, slow_readers_have_a_limit,
	  the_impatient_leave_nothing, a_host_has_four_connections)
