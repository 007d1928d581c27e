/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/harness.h"

/* A program that closes the descriptors of its session, and opens its own under the same numbers. */

#define FDS_MAX 1024

/* A socket of the program, in place of one of the library's. Its peer has sent "hello". */
struct foreign {
	int fd, peer;
};

static void put_foreign(struct foreign *ret, int fd)
{
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	ck_assert_int_eq(dup2(pair[0], fd), fd);
	close(pair[0]);
	*ret = (struct foreign){ .fd = fd, .peer = pair[1] };
	ck_assert_int_eq(write(ret->peer, "hello", 5), 5);
}

static void assert_untouched(const struct foreign *foreign)
{
	char buf[64];

	ck_assert_int_eq(recv(foreign->peer, buf, sizeof(buf), MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(recv(foreign->fd, buf, sizeof(buf), MSG_DONTWAIT), 5);
	ck_assert_int_eq(memcmp(buf, "hello", 5), 0);
	ck_assert_int_eq(recv(foreign->fd, buf, sizeof(buf), MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EAGAIN);
	close(foreign->peer);
	close(foreign->fd);
}

static int type_of(int fd)
{
	int type = -1;
	socklen_t len = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 ? type : -1;
}

/* The socket of the session that was opened last: it is connected to the server's path. */
static int find_socket(void)
{
	for (int fd = FDS_MAX; fd > STDERR_FILENO; fd--) {
		struct sockaddr_un addr = { 0 };
		socklen_t len = sizeof(addr);

		if (getpeername(fd, (struct sockaddr *)&addr, &len) == 0 && len > 2 &&
		    strcmp(addr.sun_path, harness.socket_path) == 0)
			return fd;
	}
	ck_abort_msg("no session is open");
}

/* The bell of the session that was opened last, see wire.h: a stream whose peer is closed. */
static int find_bell(void)
{
	char c;

	for (int fd = FDS_MAX; fd > STDERR_FILENO; fd--)
		if (type_of(fd) == SOCK_STREAM && recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
			return fd;
	ck_abort_msg("no session has a bell");
}

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < FDS_MAX; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void assert_lost(int r)
{
	expect_failure(r, ECONNRESET, "the program has closed the socket of its session");
}

/* Everything that a program can call. */
static void use(struct rdmabroker *session, struct rdmabroker_id *id)
{
	struct rdmabroker_event *event;
	struct rdmabroker_id *other;
	struct ibv_context *verbs;
	char path[108];

	assert_lost(rdmabroker_check(session));
	assert_lost(rdmabroker_bind_addr(id, addr(7471)));
	assert_lost(rdmabroker_listen(id, 1));
	assert_lost(rdmabroker_open_device(session, "fake0", &verbs));
	assert_lost(rdmabroker_restrict(session, "reject any\n", 1));
	assert_lost(rdmabroker_publish(session, path, sizeof(path)));
	assert_lost(rdmabroker_release(session));
	assert_lost(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &other));
	assert_lost(rdmabroker_resolve_addr_wait(id, NULL, addr(7472), T));
	ck_assert_int_eq(rdmabroker_get_event(session, T, &event), 0);
	ck_assert_int_eq(event->type, RDMABROKER_EVENT_LOST);
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_get_event(session, T, &event), -ECONNRESET);
	rdmabroker_destroy_id(id);
}

START_TEST(socket_is_replaced)
{
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id = start_listening(session, 7470);
	struct foreign foreign;

	ck_assert_int_eq(rdmabroker_check(session), 0);
	put_foreign(&foreign, find_socket());
	use(session, id);
	rdmabroker_close(session);
	assert_untouched(&foreign);
	await_counts(0, 0);
}
END_TEST

START_TEST(socket_is_closed)
{
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id = start_listening(session, 7470);

	close(find_socket());
	use(session, id);
	rdmabroker_close(session);
	await_counts(0, 0);
}
END_TEST

/* The first thing that the program does is to wait for an event, or to close the session. */
START_TEST(first_use)
{
	struct rdmabroker_event *event;

	for (int i = 0; i < 4; i++) {
		struct rdmabroker *session = open_session(i == 3 ? RDMABROKER_NO_POLL : 0);
		struct foreign foreign;

		/* From now on the library rings the bell. */
		if (i == 2)
			rdmabroker_get_fd(session);
		put_foreign(&foreign, find_socket());
		if (i > 0) {
			ck_assert_int_eq(rdmabroker_get_event(session, T, &event), 0);
			ck_assert_int_eq(event->type, RDMABROKER_EVENT_LOST);
			rdmabroker_free_event(event);
		}
		rdmabroker_close(session);
		assert_untouched(&foreign);
	}
	await_counts(0, 0);
}
END_TEST

/* Events that were received before can still be taken. */
START_TEST(events_that_wait)
{
	struct rdmabroker *session = open_session(RDMABROKER_FAIL_BY_EVENT);
	struct foreign foreign, bell;
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;

	rdmabroker_get_fd(session);
	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(7472), T), 0);
	AWAIT_INPUT(rdmabroker_get_fd(session), "the event of resolve_addr");
	/* While this waits, the library receives the event. */
	start_listening(session, 7470);
	put_foreign(&bell, find_bell());
	put_foreign(&foreign, find_socket());
	ck_assert_int_eq(rdmabroker_get_event(session, T, &event), 0);
	ck_assert_int_eq(event->type, RDMABROKER_EVENT_ADDR_RESOLVED);
	rdmabroker_free_event(event);
	assert_lost(rdmabroker_check(session));
	rdmabroker_close(session);
	assert_untouched(&foreign);
	assert_untouched(&bell);
	await_counts(0, 0);
}
END_TEST

/* The session goes on without its bell. */
START_TEST(bell_is_replaced)
{
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id;
	struct foreign foreign;

	rdmabroker_get_fd(session);
	put_foreign(&foreign, find_bell());
	id = resolve(session, 7471);
	rdmabroker_destroy_id(id);
	ck_assert_int_eq(rdmabroker_check(session), 0);
	rdmabroker_close(session);
	assert_untouched(&foreign);
	await_counts(0, 0);
}
END_TEST

START_TEST(descriptors_of_a_session)
{
	struct rdmabroker *session;
	unsigned n = count_fds();

	session = open_session(0);
	ck_assert_int_ge(rdmabroker_get_fd(session), 0);
	/* and the server's socket and pidfd */
	ck_assert_uint_eq(count_fds(), n + 3 + 2);
	rdmabroker_close(session);
	await_counts(0, 0);
	AWAIT(count_fds() == n, "the server's descriptors to be closed");
	session = open_session(RDMABROKER_NO_POLL);
	ck_assert_int_eq(rdmabroker_get_fd(session), -1);
	ck_assert_uint_eq(count_fds(), n + 1 + 2);
	rdmabroker_close(session);
	await_counts(0, 0);
	AWAIT(count_fds() == n, "the server's descriptors to be closed");
}
END_TEST

UNIT_MAIN("library_lost", set_up, tear_down, socket_is_replaced, socket_is_closed, first_use,
	  events_that_wait, bell_is_replaced, descriptors_of_a_session)
