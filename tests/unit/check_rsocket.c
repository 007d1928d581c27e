/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/brokerprocess.h"
#include "tests/unit/loopverbs.h"
#include "tests/unit/unit.h"

/*
 * rsockets over the broker: librdmacm's own rsockets, the drop-in as programs load it, and a daemon on the fake fabric, which
 * is a process of its own. Both ends of each connection are in this process, because loopverbs carries the data.
 */

#define PORT 7471
#define REFUSED_PORT 7472 /* that policy does not allow */
#define UNUSED_PORT 7473

#define CALLS            \
	X(rsocket);      \
	X(rbind);        \
	X(rlisten);      \
	X(raccept);      \
	X(rconnect);     \
	X(rshutdown);    \
	X(rclose);       \
	X(rsend);        \
	X(rsendto);      \
	X(rrecv);        \
	X(rrecvfrom);    \
	X(rpoll);        \
	X(rfcntl);       \
	X(rgetsockopt);  \
	X(rgetpeername); \
	X(rgetsockname);

static struct {
#define X(name) __typeof__(name) *name
	CALLS
#undef X
} r;

/*
 * Libraries find these in place of libc's. librspreload has such functions since 2026, and what its epoll_create1() returns
 * cannot be polled. The library and the drop-in must not call them. librdmacm's datagrams use epoll.
 */
static bool has_epoll;

int epoll_create1(int flags)
{
	errno = ENOSYS;
	return -1;
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (has_epoll)
		return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
	errno = ENOSYS;
	return -1;
}

/* ---- the daemon and the drop-in ---- */

static void set_up(void)
{
	brokerprocess_begin("reject connect port 7472\nallow any\n");
}

/* As by a program that loads its plug-ins: the drop-in is not visible to other libraries. */
static void load(void)
{
	char file[PATH_MAX];
	void *lib =
		dlopen(brokerprocess_built("librdmabroker-rdmacm.so", file), RTLD_NOW | RTLD_LOCAL);

	ck_assert_msg(lib != NULL, "%s", dlerror());
#define X(name)                                         \
	r.name = (__typeof__(r.name))dlsym(lib, #name); \
	ck_assert_ptr_nonnull(r.name)
	CALLS
#undef X
}

static void *load_librdmacm(int flags)
{
	char file[PATH_MAX];
	void *lib =
		dlopen(brokerprocess_built("tests/unit/librdmacm.so.1", file), RTLD_NOW | flags);

	ck_assert_msg(lib != NULL, "%s", dlerror());
	return lib;
}

/* ---- what programs do ---- */

static struct sockaddr *addr(uint16_t port)
{
	static _Thread_local struct sockaddr_in in;

	in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a090001),
	};
	return (struct sockaddr *)&in;
}

#define OK(call) ck_assert_msg((call) >= 0, "%s: %s", #call, strerror(errno))
#define FAILS(call, error)                                        \
	do {                                                      \
		ck_assert_int_lt(call, 0);                        \
		ck_assert_str_eq(strerrorname_np(errno), #error); \
	} while (0)

static int new_socket(void)
{
	int fd = r.rsocket(AF_INET, SOCK_STREAM, 0);

	ck_assert_msg(fd >= 0, "rsocket: %s", strerror(errno));
	return fd;
}

static int new_listener(void)
{
	int fd = new_socket();

	OK(r.rbind(fd, addr(PORT), sizeof(struct sockaddr_in)));
	OK(r.rlisten(fd, 8));
	return fd;
}

static void send_all(int fd, const char *data, size_t len)
{
	ssize_t n;

	for (; len > 0; data += n, len -= (size_t)n) {
		n = r.rsend(fd, data, len, 0);
		ck_assert_msg(n > 0, "rsend: %s", strerror(errno));
	}
}

static void receive_all(int fd, char *data, size_t len)
{
	ssize_t n;

	for (; len > 0; data += n, len -= (size_t)n) {
		n = r.rrecv(fd, data, len, 0);
		ck_assert_msg(n > 0, "rrecv: %s", n == 0 ? "end" : strerror(errno));
	}
}

/* A server of one connection, which sends back what it gets. */
static void *echo(void *listener)
{
	char data[4096];
	ssize_t n;
	int fd;

	fd = r.raccept(*(int *)listener, NULL, NULL);
	ck_assert_msg(fd >= 0, "raccept: %s", strerror(errno));
	while ((n = r.rrecv(fd, data, sizeof(data), 0)) > 0)
		send_all(fd, data, (size_t)n);
	ck_assert_int_eq(n, 0);
	OK(r.rclose(fd));
	return NULL;
}

static void talk(int fd, unsigned rounds)
{
	char sent[10000], got[sizeof(sent)];

	for (unsigned i = 0; i < rounds; i++) {
		for (size_t k = 0; k < sizeof(sent); k++)
			sent[k] = (char)(i * 7 + k * 13);
		send_all(fd, sent, sizeof(sent));
		receive_all(fd, got, sizeof(got));
		ck_assert_mem_eq(sent, got, sizeof(sent));
	}
}

static void connect_and_talk(int listener, unsigned rounds)
{
	pthread_t server;
	int fd;

	ck_assert_int_eq(pthread_create(&server, NULL, echo, &listener), 0);
	fd = new_socket();
	OK(r.rconnect(fd, addr(PORT), sizeof(struct sockaddr_in)));
	talk(fd, rounds);
	OK(r.rshutdown(fd, SHUT_RDWR));
	OK(r.rclose(fd));
	pthread_join(server, NULL);
}

/* ---- tests ---- */

START_TEST(data_in_both_directions)
{
	int listener;

	load();
	listener = new_listener();
	connect_and_talk(listener, 100);
	OK(r.rclose(listener));
	ck_assert_uint_eq(loopverbs_n_qps(), 0);
}
END_TEST

/* A QP would be refused if it had librdmacm's default size, or one that librdmacm has read from the wrong memory. */
START_TEST(queues_are_as_long_as_the_device_allows)
{
	int listener;

	load();
	listener = new_listener();
	connect_and_talk(listener, 1);
	ck_assert_uint_eq(loopverbs_largest_queue(), LOOPVERBS_MAX_QP_WR);
	OK(r.rclose(listener));
}
END_TEST

/* More than the sessions that are kept for the next one. */
START_TEST(one_connection_after_another)
{
	int listener;

	load();
	listener = new_listener();
	for (int i = 0; i < 12; i++)
		connect_and_talk(listener, 1);
	OK(r.rclose(listener));
	ck_assert_uint_eq(loopverbs_n_qps(), 0);
}
END_TEST

#define N_AT_ONCE \
	3 /* with more, the thread of rsockets in librdmacm 44 reads memory that it has freed */

START_TEST(connections_at_the_same_time)
{
	pthread_t servers[N_AT_ONCE];
	int listener, fds[N_AT_ONCE];

	load();
	listener = new_listener();
	for (int i = 0; i < N_AT_ONCE; i++) {
		ck_assert_int_eq(pthread_create(&servers[i], NULL, echo, &listener), 0);
		fds[i] = new_socket();
		OK(r.rconnect(fds[i], addr(PORT), sizeof(struct sockaddr_in)));
	}
	for (int i = 0; i < N_AT_ONCE; i++)
		talk(fds[i], 3);
	for (int i = 0; i < N_AT_ONCE; i++) {
		OK(r.rshutdown(fds[i], SHUT_RDWR));
		OK(r.rclose(fds[i]));
	}
	for (int i = 0; i < N_AT_ONCE; i++)
		pthread_join(servers[i], NULL);
	OK(r.rclose(listener));
	ck_assert_uint_eq(loopverbs_n_qps(), 0);
}
END_TEST

static void await_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	ck_assert_int_eq(r.rpoll(&p, 1, PATIENCE_MS), 1);
	ck_assert_int_eq(p.revents & events, events);
}

START_TEST(without_waiting)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	int listener, client, server, error = -1;
	char data[6];

	load();
	listener = new_listener();
	OK(r.rfcntl(listener, F_SETFL, O_NONBLOCK));
	FAILS(r.raccept(listener, NULL, NULL), EAGAIN);
	client = new_socket();
	OK(r.rfcntl(client, F_SETFL, O_NONBLOCK));
	/* The daemon, and the thread of librdmacm that accepts, can be quicker than the call. */
	if (r.rconnect(client, addr(PORT), sizeof(struct sockaddr_in)) < 0)
		ck_assert_str_eq(strerrorname_np(errno), "EINPROGRESS");
	await_ready(client, POLLOUT);
	len = sizeof(error);
	OK(r.rgetsockopt(client, SOL_SOCKET, SO_ERROR, &error, &len));
	ck_assert_int_eq(error, 0);

	await_ready(listener, POLLIN);
	server = r.raccept(listener, NULL, NULL);
	OK(server);
	len = sizeof(peer);
	OK(r.rgetpeername(client, (struct sockaddr *)&peer, &len));
	ck_assert_mem_eq(&peer.sin_addr, &((struct sockaddr_in *)addr(PORT))->sin_addr, 4);
	ck_assert_int_eq(peer.sin_port, htons(PORT));

	FAILS(r.rrecv(client, data, sizeof(data), 0), EAGAIN);
	send_all(server, "hello", 6);
	await_ready(client, POLLIN);
	receive_all(client, data, sizeof(data));
	ck_assert_str_eq(data, "hello");

	OK(r.rshutdown(server, SHUT_RDWR));
	await_ready(client, POLLIN);
	ck_assert_int_eq(r.rrecv(client, data, sizeof(data), 0), 0);
	OK(r.rclose(client));
	OK(r.rclose(server));
	OK(r.rclose(listener));
}
END_TEST

/*
 * The first datagrams go by sockets of UDP, so that the ends learn each other's QP, and need an address of this host. Then they
 * get the broker's ids, and the others go by the QPs.
 */
START_TEST(datagrams)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in from;
	socklen_t len = sizeof(at);
	char data[24];
	int server, client;

	has_epoll = true;
	load();
	server = r.rsocket(AF_INET, SOCK_DGRAM, 0);
	OK(server);
	OK(r.rbind(server, (struct sockaddr *)&at, sizeof(at)));
	OK(r.rgetsockname(server, (struct sockaddr *)&at, &len));
	client = r.rsocket(AF_INET, SOCK_DGRAM, 0);
	OK(client);
	OK(r.rconnect(client, (struct sockaddr *)&at, sizeof(at)));
	for (int i = 0; i < 20; i++) {
		snprintf(data, sizeof(data), "request %d", i);
		ck_assert_int_eq(r.rsend(client, data, sizeof(data), 0), sizeof(data));
		await_ready(server, POLLIN);
		memset(data, 0, sizeof(data));
		len = sizeof(from);
		ck_assert_int_eq(r.rrecvfrom(server, data, sizeof(data), 0,
					     (struct sockaddr *)&from, &len),
				 sizeof(data));
		ck_assert_int_eq(strncmp(data, "request ", 8), 0);
		ck_assert_int_eq(atoi(data + 8), i);
		ck_assert_int_eq(r.rsendto(server, "answer", 7, 0, (struct sockaddr *)&from, len),
				 7);
		await_ready(client, POLLIN);
		ck_assert_int_eq(r.rrecv(client, data, sizeof(data), 0), 7);
		ck_assert_str_eq(data, "answer");
	}
	ck_assert_uint_eq(loopverbs_n_qps(), 2);
	ck_assert_uint_ge(loopverbs_n_datagrams(), 30); /* of 40 */
	OK(r.rclose(client));
	OK(r.rclose(server));
	ck_assert_uint_eq(loopverbs_n_qps(), 0);
}
END_TEST

START_TEST(policy_decides)
{
	int fd;

	load();
	fd = new_socket();
	PRINTS(FAILS(r.rconnect(fd, addr(REFUSED_PORT), sizeof(struct sockaddr_in)), EACCES));
	ck_assert_msg(strstr(brokerprocess_printed, "may not connect to 10.9.0.1:7472") != NULL,
		      "%s", brokerprocess_printed);
	OK(r.rclose(fd));
	fd = new_socket();
	FAILS(r.rconnect(fd, addr(UNUSED_PORT), sizeof(struct sockaddr_in)), ECONNREFUSED);
	OK(r.rclose(fd));
}
END_TEST

/* librspreload replaces socket() by rsocket(), also for the socket by which the library connects to the broker. */
START_TEST(sockets_of_other_families)
{
	load();
	FAILS(r.rsocket(AF_UNIX, SOCK_SEQPACKET, 0), EOPNOTSUPP);
	FAILS(r.rsocket(AF_NETLINK, SOCK_RAW, 0), EOPNOTSUPP);
}
END_TEST

/* librdmacm itself would have what it needs. */
static bool must_skip(void)
{
	bool has_node = access("/dev/infiniband/rdma_cm", R_OK | W_OK) == 0;

	if (has_node)
		fprintf(stderr, "skipped: this user may open /dev/infiniband/rdma_cm\n");
	return has_node;
}

START_TEST(a_broker_that_comes_later)
{
	int listener, fds[2];
	struct pollfd p = { .events = POLLIN };

	if (must_skip())
		return;
	brokerprocess_stop();
	load();
	/* This needs no broker. */
	ck_assert_int_eq(pipe(fds), 0);
	p.fd = fds[0];
	ck_assert_int_eq(write(fds[1], "x", 1), 1);
	ck_assert_int_eq(r.rpoll(&p, 1, PATIENCE_MS), 1);
	PRINTS(FAILS(r.rsocket(AF_INET, SOCK_STREAM, 0), ENODEV));
	ck_assert_ptr_nonnull(strstr(brokerprocess_printed, "check that rdmabrokerd is running"));
	brokerprocess_start();
	listener = new_listener();
	connect_and_talk(listener, 1);
	OK(r.rclose(listener));
}
END_TEST

/* What librdmacm itself says without a device of the kernel. */
START_TEST(not_by_the_broker)
{
	if (must_skip() || brokerprocess_is_sanitized())
		return;
	setenv("RDMABROKER_RSOCKETS", "direct", 1);
	setenv("RDMABROKER_DEBUG", "1", 1);
	load();
	PRINTS(ck_assert_int_lt(r.rsocket(AF_INET, SOCK_STREAM, 0), 0));
	ck_assert_ptr_nonnull(strstr(brokerprocess_printed, "rsockets do not use the broker"));
	ck_assert_ptr_null(strstr(brokerprocess_printed, "cannot use the broker"));
}
END_TEST

/* Then librdmacm handles rsockets, too. */
START_TEST(the_fallback_without_the_node)
{
	if (must_skip() || brokerprocess_is_sanitized())
		return;
	brokerprocess_stop();
	setenv("RDMABROKER_FALLBACK", "direct", 1);
	setenv("RDMABROKER_DEBUG", "1", 1);
	load();
	for (int i = 0; i < 2; i++) {
		PRINTS(ck_assert_int_lt(r.rsocket(AF_INET, SOCK_STREAM, 0), 0));
		ck_assert_int_eq(strstr(brokerprocess_printed, "librdmacm itself handles them") !=
					 NULL,
				 i == 0);
	}
}
END_TEST

/* As with a librdmacm that was linked so that it calls its own functions directly. */
START_TEST(a_librdmacm_that_does_not_call_us)
{
	if (must_skip() || brokerprocess_is_sanitized())
		return;
	load_librdmacm(RTLD_GLOBAL);
	load();
	PRINTS(ck_assert_int_lt(r.rsocket(AF_INET, SOCK_STREAM, 0), 0));
	ck_assert_ptr_nonnull(strstr(brokerprocess_printed, "rsockets cannot use the broker"));
	ck_assert_ptr_nonnull(strstr(brokerprocess_printed, "librdmabroker-rdmacm(7)"));
	PRINTS(ck_assert_int_lt(r.rsocket(AF_INET, SOCK_STREAM, 0), 0));
	ck_assert_str_eq(brokerprocess_printed, "");
}
END_TEST

/* ---- librspreload, which makes a program's sockets rsockets ---- */

static void *serve(void *listener)
{
	char data[512];
	ssize_t n;
	int fd = accept(*(int *)listener, NULL, NULL);

	while ((n = recv(fd, data, sizeof(data), 0)) > 0)
		if (send(fd, data, (size_t)n, 0) != n)
			return NULL;
	close(fd);
	return listener;
}

static bool converse(int listener, int fd)
{
	char data[300] = "hello", got[sizeof(data)] = "";
	struct pollfd p = { .fd = fd, .events = POLLIN };
	pthread_t server;
	void *done;

	if (bind(listener, addr(PORT), sizeof(struct sockaddr_in)) < 0 || listen(listener, 4) < 0 ||
	    pthread_create(&server, NULL, serve, &listener) != 0 ||
	    connect(fd, addr(PORT), sizeof(struct sockaddr_in)) < 0 ||
	    send(fd, data, sizeof(data), 0) != sizeof(data) || poll(&p, 1, PATIENCE_MS) != 1 ||
	    recv(fd, got, sizeof(got), MSG_WAITALL) != sizeof(got) || strcmp(got, data) != 0 ||
	    loopverbs_n_qps() != 2 || shutdown(fd, SHUT_RDWR) < 0 || close(fd) < 0)
		return false;
	return pthread_join(server, &done) == 0 && done && close(listener) == 0;
}

/* A program of sockets, which knows nothing of rsockets. No host has the address. */
static int run_sockets(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

	if (converse(listener, fd))
		return 0;
	perror("sockets");
	return 1;
}

static int run_with_librspreload(const char *librspreload)
{
	char dropin[PATH_MAX], self[PATH_MAX], both[2 * PATH_MAX + 2];
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		snprintf(both, sizeof(both), "%s:%s",
			 brokerprocess_built("librdmabroker-rdmacm.so", dropin), librspreload);
		setenv("LD_PRELOAD", both, 1);
		setenv("RDMABROKER_DEVICES", "all",
		       1); /* as with rdmabrokerctl run: a session at the start */
		brokerprocess_built("tests/unit/check_rsocket", self);
		execl(self, self, "sockets", NULL);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

START_TEST(a_program_of_sockets)
{
	char librdmacm[PATH_MAX], file[PATH_MAX + 32], real[PATH_MAX];

	ck_assert_ptr_nonnull(
		realpath(brokerprocess_built("tests/unit/librdmacm.so.1", librdmacm), real));
	*strrchr(real, '/') = 0;
	snprintf(file, sizeof(file), "%s/rsocket/librspreload.so", real);
	if (brokerprocess_is_sanitized())
		return;
	if (access(file, R_OK) < 0) {
		fprintf(stderr, "skipped: there is no %s\n", file);
		return;
	}
	ck_assert_int_eq(run_with_librspreload(file), 0);
}
END_TEST

int main(int argc, char **argv)
{
	const TTest *const tests[] = {
		data_in_both_directions,
		queues_are_as_long_as_the_device_allows,
		one_connection_after_another,
		connections_at_the_same_time,
		without_waiting,
		datagrams,
		policy_decides,
		sockets_of_other_families,
		a_broker_that_comes_later,
		not_by_the_broker,
		the_fallback_without_the_node,
		a_librdmacm_that_does_not_call_us,
		a_program_of_sockets,
	};

	if (argc > 1 && strcmp(argv[1], "sockets") == 0)
		return run_sockets();
	return unit_run("rsocket", set_up, brokerprocess_end, tests,
			sizeof(tests) / sizeof(tests[0]));
}
