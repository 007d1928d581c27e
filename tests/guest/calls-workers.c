/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/guest/calls.h"

/*
 * One process listens, and other processes, the workers, serve. Each connection request is passed to the next worker
 * as a descriptor. The worker imports the id, and replies with a byte.
 */

#define WORKERS_MAX 8

static void send_fd(int sock, int fd)
{
	char byte = 0;
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(sock, &m, MSG_NOSIGNAL) != 1)
		die("a descriptor cannot be passed on: %s", strerror(errno));
}

/* Returns -1 if the sender has closed the socket, or on an error. */
static int receive_fd(int sock)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	int fd;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) <= 0)
		return -1;
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		die("a message without a descriptor");
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void try_forged(struct rdmabroker *session)
{
	struct rdmabroker_id *id;
	int pair[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("no descriptors: %s", strerror(errno));
	must_fail("import a socket", rdmabroker_import_id(session, pair[0], &id), -EBADF);
	must_fail("import /dev/null", rdmabroker_import_id(session, null, &id), -EBADF);
	must_fail("import no descriptor", rdmabroker_import_id(session, -1, &id), -EBADF);
	close(null);
	close(pair[0]);
	close(pair[1]);
}

/*
 * The process of worker WHO: serves the ids from SOCK until SOCK is closed and no connection is left. Never returns.
 */
static void work(uint32_t who, int sock)
{
	struct rdmabroker *session = open_session(0);
	struct server *server = server_new(session, who, LINK_OWN);
	bool first = true;

	if (who == 0)
		try_forged(session);
	printf("worker %u is process %d\n", who, getpid());
	while (sock >= 0 || server_n_links(server) > 0) {
		struct rdmabroker_id *id, *again;
		int fd;

		if (!server_wait(server, sock))
			continue;
		fd = receive_fd(sock);
		if (fd < 0) {
			close(sock);
			sock = -1;
			continue;
		}
		must(session, "import_id", rdmabroker_import_id(session, fd, &id));
		if (first)
			must_fail("import twice", rdmabroker_import_id(session, fd, &again),
				  -EBADF);
		first = false;
		close(fd);
		if (write(sock, "", 1) != 1)
			die("worker %u cannot say that it has the id", who);
		if (!rdmabroker_get_request_event(id))
			die("worker %u got an id without its request", who);
		server_accept(server, id);
	}
	printf("worker %u served %u\n", who, server_n_ended(server));
	server_free(server);
	rdmabroker_close(session);
	exit(0);
}

static void hand_over(struct rdmabroker *session, struct rdmabroker_id *request, int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	char byte;
	int fd, again;

	must(session, "export_id", rdmabroker_export_id(request, &fd));
	if (rdmabroker_export_id(request, &again) != -EINVAL)
		die("an id can be exported twice");
	send_fd(sock, fd);
	close(fd);
	if (poll(&p, 1, DEADLINE_MS) <= 0) {
		stall_tell(session, NULL, "a worker does not take its id over");
		die("a worker does not take its id over");
	}
	if (read(sock, &byte, 1) != 1)
		die("a worker is gone");
	/* The worker has imported the id: destroying it here does not affect the worker. */
	rdmabroker_destroy_id(request);
}

/* workers ADDR PORT WORKERS COUNT: the workers accept COUNT connections in total. */
int workers(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	int n = number(argv[2]), count = number(argv[3]), socks[WORKERS_MAX], status;
	struct rdmabroker_id *listener, *request;
	struct rdmabroker *session;

	for (int i = 0; i < n; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
			die("no socket: %s", strerror(errno));
		fflush(stdout);
		switch (fork()) {
		case -1:
			die("no process: %s", strerror(errno));
		case 0:
			/*
			 * These copies would keep the earlier workers' sockets open after the parent has closed them.
			 */
			for (int j = 0; j < i; j++)
				close(socks[j]);
			close(pair[0]);
			alarm(PATIENCE_PROGRAM_S);
			work((uint32_t)i, pair[1]);
		}
		close(pair[1]);
		socks[i] = pair[0];
	}

	session = open_session(0);
	listener = listen_on(session, RDMABROKER_PS_TCP, &address);
	printf("listening\n");
	for (int i = 0; i < count; i++) {
		must(session, "get_request",
		     rdmabroker_get_request(listener, DEADLINE_MS, &request));
		hand_over(session, request, socks[i % n]);
	}
	printf("handed out %d\n", count);
	for (int i = 0; i < n; i++)
		close(socks[i]);
	for (int i = 0; i < n; i++) {
		if (wait(&status) < 0)
			die("a worker is lost: %s", strerror(errno));
		if (WIFSIGNALED(status))
			printf("a worker was killed by signal %d\n", WTERMSIG(status));
		else if (status != 0)
			die("a worker failed");
	}
	rdmabroker_destroy_id(listener);
	rdmabroker_close(session);
	return 0;
}

/*
 * Clients are threads, each with its own session. HOLD: the connections last until the suite or the worker ends them.
 */
struct client_thread {
	pthread_t thread;
	int n, rounds;
	bool hold;
};

static union address many_address;
static pthread_barrier_t connected;
static volatile bool hold_is_over;

/* Fails on any event other than DISCONNECTED. */
static bool is_disconnected(struct rdmabroker *session)
{
	struct rdmabroker_event *event;
	bool is;

	if (rdmabroker_get_event(session, 0, &event) < 0)
		return false;
	is = event->type == RDMABROKER_EVENT_DISCONNECTED;
	if (!is)
		die("%s while a connection is held", rdmabroker_event_str(event->type));
	rdmabroker_free_event(event);
	return is;
}

/* Makes rounds until the worker disconnects, or until hold_is_over is set and the last answer is verified. */
static void hold(struct link *link, uint32_t who)
{
	struct rdmabroker *session = rdmabroker_get_session(link->id);
	enum answer answer = ANSWER_VERIFIED;

	printf("held by worker %u\n", who);
	pthread_barrier_wait(&connected);
	while (!hold_is_over || answer != ANSWER_VERIFIED) {
		if (answer == ANSWER_VERIFIED)
			client_ask(link);
		answer = client_take(link, 50, NULL);
		if (is_disconnected(session)) {
			printf("worker %u: disconnected\n", who);
			link_done(link);
			rdmabroker_destroy_id(link->id);
			return;
		}
	}
	printf("worker %u: %llu rounds verified\n", who, (unsigned long long)link->round);
	client_disconnect(link);
}

static void *run_client(void *arg)
{
	struct client_thread *t = arg;
	struct rdmabroker *session = open_session(0);

	for (int i = 0; i < t->n; i++) {
		struct link link;
		uint32_t who = 0;

		client_connect(&link, session, &many_address, LINK_OWN);
		for (int j = 0; j < t->rounds; j++)
			who = client_round(&link);
		if (t->hold)
			hold(&link, who);
		else
			client_disconnect(&link);
	}
	rdmabroker_close(session);
	return NULL;
}

/*
 * many ADDR PORT COUNT PARALLEL [hold]: makes COUNT connections, PARALLEL at a time, and 5 rounds on each. hold: more
 * rounds, until the suite or the worker ends the connection.
 */
int many(char **argv)
{
	int count = number(argv[2]), n = number(argv[3]);
	bool with_hold = strcmp(argument(argv, 4), "hold") == 0;
	struct client_thread *threads = calloc((size_t)n, sizeof(*threads));

	if (!threads)
		die("out of memory");
	many_address = make_address(argv[0], argv[1]);
	pthread_barrier_init(&connected, NULL, (unsigned)n + 1);
	for (int i = 0; i < n; i++) {
		threads[i] =
			(struct client_thread){ .n = count / n, .rounds = 5, .hold = with_hold };
		if (pthread_create(&threads[i].thread, NULL, run_client, &threads[i]) != 0)
			die("no thread");
	}
	if (with_hold) {
		pthread_barrier_wait(&connected);
		step("all are held");
		hold_is_over = true;
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i].thread, NULL);
	free(threads);
	printf("%d connections\n", count);
	return 0;
}
