/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/admin.h"
#include "takeover/fdstore.h"
#include "takeover/ledger.h"
#include "tests/unit/succession.h"
#include "tests/unit/unit.h"

/* Restricted sessions, when the daemon dies and the next process takes over. */

static struct rdmabroker *open_at(const char *path)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct rdmabroker *session;

	options.socket = path;
	ck_assert_int_eq(rdmabroker_open(&options, &session), 0);
	return session;
}

static int try_listen(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *one = new_id(session);
	int r = rdmabroker_bind_addr(one, addr(port));

	if (r == 0)
		r = rdmabroker_listen(one, 0);
	rdmabroker_destroy_id(one);
	return r;
}

static const char restriction[] = "allow listen port 7471-7475";

static struct rdmabroker *restricted(unsigned ids)
{
	struct rdmabroker *session = open_session();

	ck_assert_int_eq(rdmabroker_restrict(session, restriction, ids), 0);
	return session;
}

/* Restrictions, with their parents and limits, and the sockets of sessions go on. */
START_TEST(restricted_sessions)
{
	struct rdmabroker *launcher = restricted(2), *one, *two;
	struct rdmabroker_id *held;
	char path[108];

	ck_assert_int_eq(rdmabroker_publish(launcher, path, sizeof(path)), 0);
	one = open_at(path);
	ck_assert_int_eq(rdmabroker_restrict(one, "allow listen port 7475-7480", 0), 0);
	held = new_id(one);
	ck_assert_int_eq(rdmabroker_bind_addr(held, addr(7475)), 0);
	for (unsigned i = 0; i < 3; i++) {
		restart();
		ck_assert_int_eq(try_listen(one, 7471), -EACCES);
		ck_assert_int_eq(try_listen(one, 7476), -EACCES);
		ck_assert_int_eq(try_listen(launcher, 7475), -EADDRINUSE);
		ck_assert_int_eq(try_listen(launcher, 7471), 0);
		two = open_at(path);
		ck_assert_int_eq(try_listen(two, 7476), -EACCES);
		ck_assert_int_eq(try_listen(two, 7472), 0);
		/* The limit counts the ids of all of them. */
		ck_assert_int_eq(rdmabroker_bind_addr(new_id(two), addr(7473)), 0);
		ck_assert_int_eq(try_listen(launcher, 7471), -EDQUOT);
		rdmabroker_close(two);
		run_all();
	}
	ck_assert_int_eq(rdmabroker_listen(held, 0), 0);
	/* The next process removes what a session has left that ends meanwhile. */
	kill_broker();
	rdmabroker_close(launcher);
	start_broker();
	run_all();
	ck_assert_int_eq(access(path, F_OK), -1);
	ck_assert_int_eq(try_listen(one, 7476), -EACCES);
	rdmabroker_close(one);
}
END_TEST

START_TEST(released_session)
{
	struct rdmabroker *session = restricted(0);
	int fd = rdmabroker_release(session);

	ck_assert_int_ge(fd, 0);
	restart();
	ck_assert_int_eq(rdmabroker_adopt(fd, NULL, &session), 0);
	ck_assert_int_eq(try_listen(session, 7471), 0);
	restart();
	ck_assert_int_eq(try_listen(session, 7471), 0);
	ck_assert_int_eq(try_listen(session, 7476), -EACCES);
	rdmabroker_close(session);
}
END_TEST

/* A process of an earlier version does not know of restrictions, and must not take such a session over. */
START_TEST(restricted_session_and_an_earlier_version)
{
	struct rdmabroker *session = restricted(0);
	struct fdstore *store;
	struct old_ledger old;
	const char *why;

	kill_broker();
	ck_assert_int_eq(fdstore_new(&store, NULL), 0);
	ck_assert_int_eq(old_ledger_read(&old, store, &why), 0);
	ck_assert_uint_eq(old.n_sessions, 3);
	ck_assert_uint_ne(old.sessions[0].permits, 0);
	ck_assert_uint_eq(old.sessions[2].permits, 0);
	ck_assert_uint_ne(old.sessions[2].restricted_permits, 0);
	ck_assert_uint_eq(old.n_restrictions, 1);
	ck_assert_str_eq(old.restrictions[0].text, restriction);
	old_ledger_free(&old);
	fdstore_free(store);
	start_broker();
	ck_assert_int_eq(try_listen(session, 7471), 0);
	rdmabroker_close(session);
}
END_TEST

UNIT_MAIN("takeover_restricted", succession_set_up, succession_tear_down, restricted_sessions,
	  released_session, restricted_session_and_an_earlier_version)
