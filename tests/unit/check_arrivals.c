/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/object/session.h"
#include "rpc/arrivals.h"
#include "rpc/newcomers.h"
#include "rpc/turns.h"
#include "tests/unit/ranges.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"
#include "util/closer.h"

/*
 * Many clients of one user, or of the uids of one container, at the same time: another user's client waits for a few of
 * them, and not for all. What is counted is what the daemon does before it answers the other user.
 */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define MANY 300
#define CONTAINER 100000 /* the first uid of a range of root */
#define MALLORY 1001
#define VICTIM 1000
#define FDS 20000

static int listener; /* the daemon's */
static uid_t uid_of_pairs;
static int clients[ARRIVALS_PER_USER + 1000];
static uint8_t hello[PACKET_MAX];
static size_t hello_len;

/* The daemon's socket is the one that listens first. The queue is as long as the kernel allows. */
int listen(int fd, int backlog)
{
	if (listener < 0)
		listener = fd;
	return (int)syscall(SYS_listen, fd, sizeof(clients));
}

/* The uid is in the name that the client has given its socket, or that of the next pair of sockets. */
int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
	int r = (int)syscall(SYS_getsockopt, fd, level, option, value, len);
	struct sockaddr_un name = { 0 };
	socklen_t name_len = sizeof(name);
	struct ucred *cred = value;

	if (r < 0 || level != SOL_SOCKET || option != SO_PEERCRED)
		return r;
	if (getpeername(fd, (struct sockaddr *)&name, &name_len) < 0 ||
	    sscanf(name.sun_path + 1, "uid %u", &cred->uid) != 1)
		cred->uid = uid_of_pairs;
	return 0;
}

static void set_up(void)
{
	struct wire_client nobody = { 0 };
	struct rlimit limit = { FDS, FDS };

	listener = -1;
	setrlimit(RLIMIT_NOFILE, &limit);
	owners_use(read_ranges("root:100000:65536\n"));
	wire_start("allow any\n");
	hello_len = wire_make(&nobody, OP(HELLO), 0, hello);
}

static void tear_down(void)
{
	wire_end();
	owners_use(NULL);
}

static int connect_as(uid_t uid)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX }, to;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	static unsigned number;
	int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "uid %u of %d.%u", uid,
			 getpid(), number++);
	socklen_t len = sizeof(to);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&name,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
			 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&to, &len), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, len), 0);
	ck_assert_int_eq(send(fd, hello, hello_len, 0), (ssize_t)hello_len);
	return fd;
}

/* The length of the daemon's answer; 0: the daemon has closed the connection; -1: nothing yet. */
static ssize_t answer(int fd)
{
	uint8_t buf[PACKET_MAX];
	ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

	return n < 0 && errno == ECONNRESET ? 0 : n;
}

static bool has_session(uid_t uid)
{
	struct list *l;

	list_for_each(l, &wire.core->sessions)
		if (session_get_uid(container_of(l, struct session, link)) == uid)
			return true;
	return false;
}

/* Who has a session waits for threads, and they for nobody else. */
static void await_victim(unsigned max_before)
{
	while (!has_session(VICTIM))
		ck_assert_int_ge(sd_event_run(wire.loop, UINT64_MAX), 0);
	ck_assert_uint_le(wire.core->n_sessions, max_before);
	wire_run(NULL, 0);
}

static void close_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		close(clients[i]);
	wire_run(NULL, 0);
}

/* MANY clients with the uid FIRST, or with that many uids, connect, and then the victim does. */
static void crowd(uid_t first, bool many_uids)
{
	unsigned n_answered = 0;
	int victim;

	for (unsigned i = 0; i < MANY; i++)
		clients[i] = connect_as(many_uids ? first + i : first);
	victim = connect_as(VICTIM);
	await_victim(16);
	ck_assert_int_gt(answer(victim), 0);
	for (unsigned i = 0; i < MANY; i++)
		n_answered += answer(clients[i]) > 0;
	ck_assert_uint_eq(n_answered, MANY);
	close(victim);
	close_all(MANY);
}

START_TEST(many_of_one_user)
{
	crowd(MALLORY, /* many_uids= */ false);
}
END_TEST

START_TEST(many_of_one_container)
{
	crowd(CONTAINER, /* many_uids= */ true);
}
END_TEST

/* More than can wait are refused. Only those of the same user are. */
START_TEST(too_many_of_one_user)
{
	unsigned n = sizeof(clients) / sizeof(clients[0]), n_refused = 0, n_answered = 0;
	struct rlimit limit;
	int victim;
	ssize_t r;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur < FDS) {
		fprintf(stderr, "skipped: only %llu descriptors can be open\n",
			(unsigned long long)limit.rlim_cur);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		clients[i] = connect_as(MALLORY);
	victim = connect_as(VICTIM);
	await_victim(64);
	ck_assert_int_gt(answer(victim), 0);
	for (unsigned i = 0; i < n; i++) {
		r = answer(clients[i]);
		n_answered += r > 0;
		n_refused += r == 0;
	}
	ck_assert_uint_ge(n_answered, ARRIVALS_PER_USER);
	ck_assert_uint_eq(n_answered + n_refused, n);
	ck_assert_uint_gt(n_refused, 0);
	close(victim);
	close_all(n);
}
END_TEST

static bool never(void *userdata, struct arrival *arrival)
{
	ck_abort_msg("the loop does not run");
	return true;
}

START_TEST(the_daemon_ends_before_they_are_served)
{
	struct account *descriptors = core_get_account(wire.core);
	struct arrivals arrivals = { 0 };
	struct closing *closing;
	int pair[2];

	ck_assert_int_eq(arrivals_init(&arrivals, wire.loop, descriptors, never, NULL), 0);
	ck_assert_int_eq(closing_new(&closing, core_get_closer(wire.core), 1), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(arrivals_add(&arrivals, closing, pair[1], DOOR_COMMON, NULL), 0);
	ck_assert_uint_eq(descriptors->used[ACCOUNT_FDS], 1);
	arrivals_done(&arrivals);
	wire_run(NULL, 0);
	ck_assert_int_eq(answer(pair[0]), 0);
	close(pair[0]);
}
END_TEST

static uint64_t count_requests(const struct wire_client *many, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += many[i].session->n_requests;
	return sum;
}

/* As many sessions as uids of a container always want something. */
START_TEST(requests_of_one_container)
{
	static struct wire_client many[MANY], victim, *const all[] = { &victim };
	uint8_t buf[PACKET_MAX];
	uint64_t before;

	wire.door = DOOR_COMMON;
	for (unsigned i = 0; i < MANY; i++) {
		uid_of_pairs = CONTAINER + i;
		wire_connect(&many[i]);
		wire_ask(&many[i], OP(HELLO), 0);
		ck_assert_int_eq(many[i].status, 0);
	}
	uid_of_pairs = VICTIM;
	wire_connect(&victim);
	wire_ask(&victim, OP(HELLO), 0);
	for (unsigned i = 0; i < 8 * MANY; i++)
		wire_send(&many[i % MANY], buf, wire_make(&many[i % MANY], OP(GOODBYE), 0, buf),
			  NULL);
	/* Meanwhile each of them is ready once. */
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_gt(sd_event_run(wire.loop, UINT64_MAX), 0);
	before = count_requests(many, MANY);
	victim.n_answers = 0;
	wire_send(&victim, buf, wire_make(&victim, OP(GOODBYE), 0, buf), NULL);
	while (victim.n_answers == 0) {
		ck_assert_int_gt(sd_event_run(wire.loop, UINT64_MAX), 0);
		wire_receive(all, 1);
	}
	ck_assert_uint_le(count_requests(many, MANY) - before, 3 * TURNS_BUDGET);
	wire_run(NULL, 0);
	wire_close(&victim);
	for (unsigned i = 0; i < MANY; i++)
		wire_close(&many[i]);
	wire_run(NULL, 0);
}
END_TEST

/* A user and his clients who wait leave a quarter of the descriptors to others. */
START_TEST(few_descriptors)
{
	struct account *account = &wire.core->account;
	uint64_t taken, most = 0;
	int victim;

	account->limit[ACCOUNT_FDS] = 2 * MANY;
	account->limit_per_user[ACCOUNT_FDS] = 10 * MANY;
	for (unsigned i = 0; i < 3 * MANY; i++) {
		clients[i] = connect_as(MALLORY);
		sd_event_run(wire.loop, 0);
		/* The threads close the others in their own time. */
		taken = account->used[ACCOUNT_FDS] - closer_n_waiting(wire.core->closer);
		most = taken > most ? taken : most;
	}
	victim = connect_as(VICTIM);
	wire_run(NULL, 0);
	ck_assert_uint_le(most, MANY + MANY / 2 + NEWCOMERS_PER_USER);
	ck_assert_int_gt(answer(victim), 0);
	close(victim);
	for (unsigned i = 0; i < 3 * MANY; i++)
		close(clients[i]);
	wire_run(NULL, 0);
}
END_TEST

UNIT_MAIN("arrivals", set_up, tear_down, many_of_one_user, many_of_one_container,
	  too_many_of_one_user, the_daemon_ends_before_they_are_served, requests_of_one_container,
	  few_descriptors)
