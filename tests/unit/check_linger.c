/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/object/session.h"
#include "core/rule/admin.h"
#include "core/rule/core_life.h"
#include "core/rule/enforce.h"
#include "tests/patience.h"
#include "tests/unit/be_user.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"

/* Clients that lose their sockets, and what becomes of their leases (core/verbs/linger.h). */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME

/* Long enough that no test sees its end. */
#define LONG_MS (2u * PATIENCE_MS)

static struct wire_client first, second;

static void set_up(void)
{
	first.sock = first.fd = second.sock = second.fd = -1;
	wire_start("allow any\n");
	wire.core->settings.resume_timeout_ms = LONG_MS;
}

static void tear_down(void)
{
	wire_end();
}

static void run(void)
{
	struct wire_client *clients[] = { &first, &second };

	wire_run(clients, 2);
}

static void ask(struct wire_client *client, int op)
{
	wire_ask(client, op, 0);
	ck_assert_msg(client->status == 0, "%s", client->text);
}

/* FEATURES 4: FEATURE_GOODBYE. */
static void greet(struct wire_client *client, uint8_t features)
{
	const uint8_t extra[] = { 2 << 3, features };
	uint8_t buf[PACKET_MAX];

	wire_send(client, buf,
		  request_make(++client->serial, OP(HELLO), 0, extra, sizeof(extra), buf), NULL);
	wire_run(&client, 1);
}

static void open_as(struct wire_client *client, uint8_t features)
{
	wire_connect(client);
	greet(client, features);
	ck_assert_msg(client->status == 0, "%s", client->text);
}

/* FIRST gets a lease, and its socket is closed. */
static void lose_socket(void)
{
	open_as(&first, 4);
	ask(&first, OP(OPEN_DEVICE));
	wire_close(&first);
	run();
}

static void counts(unsigned n_sessions, unsigned n_leases)
{
	ck_assert_uint_eq(wire.core->n_sessions, n_sessions);
	ck_assert_uint_eq(wire.core->n_leases, n_leases);
	ck_assert_uint_eq(wire.core->account.used[ACCOUNT_SESSIONS], n_sessions);
}

static void await_end(void)
{
	while (wire.core->n_sessions > 0)
		ck_assert_msg(sd_event_run(wire.loop, PATIENCE_MS * 1000ULL) > 0,
			      "the session that lingers has not ended");
	counts(0, 0);
}

START_TEST(next_session_gets_the_leases)
{
	lose_socket();
	counts(1, 1);
	open_as(&second, 4);
	counts(1, 1);
	ck_assert_ptr_eq(wire.core->sessions.next, &second.session->link);
	/* The client does not know of the lease, and opens the device. The lease stays until the session ends. */
	ask(&second, OP(OPEN_DEVICE));
	ask(&second, OP(CLOSE_DEVICE));
	counts(1, 1);
	/* It lingers, too. */
	wire_close(&second);
	run();
	counts(1, 1);
	open_as(&first, 4);
	ask(&first, OP(GOODBYE));
	wire_close(&first);
	run();
	counts(0, 0);
}
END_TEST

START_TEST(goodbye_ends_it)
{
	open_as(&first, 4);
	ask(&first, OP(OPEN_DEVICE));
	ask(&first, OP(GOODBYE));
	wire_close(&first);
	run();
	counts(0, 0);
}
END_TEST

/* Clients that do not know Goodbye, that have no device, or that could not be identified. */
START_TEST(others_do_not_linger)
{
	open_as(&first, 0);
	ask(&first, OP(OPEN_DEVICE));
	wire_close(&first);
	run();
	counts(0, 0);

	open_as(&first, 4);
	wire_close(&first);
	run();
	counts(0, 0);

	open_as(&first, 4);
	ask(&first, OP(OPEN_DEVICE));
	ask(&first, OP(CLOSE_DEVICE));
	wire_close(&first);
	run();
	counts(0, 0);

	open_as(&first, 4);
	ask(&first, OP(OPEN_DEVICE));
	first.session->identity.proven = false;
	wire_close(&first);
	run();
	counts(0, 0);

	wire.core->settings.resume_timeout_ms = 0;
	lose_socket();
	counts(0, 0);

	wire.core->settings.resume_timeout_ms = LONG_MS;
	wire.core->draining = true;
	open_as(&first, 4);
	wire.core->draining = false;
	ask(&first, OP(OPEN_DEVICE));
	wire.core->draining = true;
	wire_close(&first);
	run();
	counts(0, 0);
}
END_TEST

/* The kernel still gives access to the device when the client hangs up. */
START_TEST(request_that_waits_for_its_lease)
{
	uint8_t buf[PACKET_MAX];
	size_t n;

	open_as(&first, 4);
	fake_hold_leases(wire.core->fabric, true);
	n = wire_make(&first, OP(OPEN_DEVICE), 0, buf);
	wire_send(&first, buf, n, NULL);
	run();
	counts(1, 1);
	wire_close(&first);
	run();
	counts(0, 0);
	fake_hold_leases(wire.core->fabric, false);
}
END_TEST

START_TEST(client_that_is_dropped)
{
	open_as(&first, 4);
	ask(&first, OP(OPEN_DEVICE));
	wire_send(&first, (const uint8_t *)"nonsense", 8, NULL);
	run();
	counts(0, 0);
	wire_close(&first);
}
END_TEST

START_TEST(time_is_over)
{
	wire.core->settings.resume_timeout_ms = 1;
	lose_socket();
	await_end();
}
END_TEST

/* Makes CLIENT's session that of another process. */
static void be_process(struct wire_client *client, pid_t pid)
{
	struct identity *identity = &client->session->identity;

	ck_assert_int_ge(identity->pidfd, 0);
	close(identity->pidfd);
	identity->pid = pid;
	identity->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	ck_assert_int_ge(identity->pidfd, 0);
}

static pid_t make_process(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	ck_assert_int_gt(pid, 0);
	return pid;
}

static void end_process(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(process_ends)
{
	pid_t pid = make_process();

	open_as(&first, 4);
	be_process(&first, pid);
	ask(&first, OP(OPEN_DEVICE));
	wire_close(&first);
	run();
	counts(1, 1);
	/* Another process of the user gets nothing. */
	open_as(&second, 4);
	counts(2, 1);
	wire_close(&second);
	run();
	counts(1, 1);
	end_process(pid);
	await_end();

	/* A process that has ended before its socket was closed, for another process has had a copy. */
	open_as(&first, 4);
	pid = make_process();
	be_process(&first, pid);
	ask(&first, OP(OPEN_DEVICE));
	end_process(pid);
	wire_close(&first);
	run();
	counts(0, 0);
}
END_TEST

/* The kernel could have given the pid to another process by now. */
START_TEST(pid_of_a_process_that_has_ended)
{
	pid_t pid = make_process();
	struct identity *identity;

	open_as(&first, 4);
	be_process(&first, pid);
	ask(&first, OP(OPEN_DEVICE));
	wire_close(&first);
	run();
	counts(1, 1);
	wire_connect(&second);
	identity = &second.session->identity;
	identity->pid = pid;
	end_process(pid);
	/* The daemon hears of the hello and of the end of the process at once. */
	greet(&second, 4);
	ck_assert_uint_eq(wire.core->n_leases, 0);
	wire_close(&second);
	run();
	counts(0, 0);
}
END_TEST

START_TEST(other_user)
{
	lose_socket();
	wire_connect(&second);
	be_user(second.session, 4711);
	greet(&second, 4);
	ck_assert_int_eq(second.status, 0);
	counts(2, 1);
	wire_close(&second);
	run();
	counts(1, 1);
	wire.core->settings.resume_timeout_ms = 1;
	open_as(&second, 4);
	wire_close(&second);
	run();
	await_end();
}
END_TEST

/* A process has at most one session that lingers. */
START_TEST(several_sessions)
{
	lose_socket();
	for (int i = 0; i < 3; i++) {
		/* Until it has lost its socket, it is another process's, so that it does not get the leases. */
		wire_connect(&second);
		second.session->identity.pid = 1;
		greet(&second, 4);
		ask(&second, OP(OPEN_DEVICE));
		counts(2, 2);
		second.session->identity.pid = getpid();
		wire_close(&second);
		run();
		counts(1, 1);
	}
	open_as(&first, 4);
	ask(&first, OP(GOODBYE));
	wire_close(&first);
	run();
	counts(0, 0);
}
END_TEST

START_TEST(limit_of_the_user)
{
	wire.core->account.limit_per_user[ACCOUNT_SESSIONS] = 1;
	lose_socket();
	counts(1, 1);
	open_as(&second, 4);
	counts(1, 1);
	ask(&second, OP(GOODBYE));
	wire_close(&second);
	run();
	counts(0, 0);
}
END_TEST

START_TEST(policy_and_admins_end_it)
{
	struct failure failure;

	lose_socket();
	counts(1, 1);
	wire_set_policy("reject device\nallow any\n");
	enforce_start(wire.core);
	run();
	counts(1, 0);
	wire_set_policy("reject session\nallow any\n");
	/* Who has come by the socket for administration stays an admin. */
	container_of(wire.core->sessions.next, struct session, link)->door = DOOR_COMMON;
	enforce_start(wire.core);
	run();
	ck_assert_uint_eq(wire.core->n_sessions, 0);

	wire_set_policy("allow any\n");
	lose_socket();
	counts(1, 1);
	wire_connect(&second);
	second.session->identity.pid = 1;
	greet(&second, 0);
	counts(2, 1);
	ck_assert_int_eq(
		admin_kick_session(
			second.session,
			container_of(wire.core->sessions.next, struct session, link)->number,
			&failure),
		0);
	run();
	counts(1, 0);
	wire_close(&second);
	run();
	counts(0, 0);
}
END_TEST

/* The new session's policy decides about the leases that it gets. */
START_TEST(leases_that_the_policy_no_longer_allows)
{
	lose_socket();
	counts(1, 1);
	wire_set_policy("reject device\nallow any\n");
	open_as(&second, 4);
	counts(1, 0);
	wire_close(&second);
	run();
	counts(0, 0);
}
END_TEST

START_TEST(device_is_removed)
{
	lose_socket();
	fake_remove_device(wire.core->fabric, "fake0");
	run();
	counts(1, 0);
	open_as(&second, 4);
	counts(1, 0);
	wire_close(&second);
	run();
	counts(0, 0);
}
END_TEST

START_TEST(daemon_ends)
{
	lose_socket();
	counts(1, 1);
	server_free(wire.server);
	core_free(wire.core);
	sd_event_unref(wire.loop);
	set_up();
}
END_TEST

UNIT_MAIN("linger", set_up, tear_down, next_session_gets_the_leases, goodbye_ends_it,
	  others_do_not_linger, request_that_waits_for_its_lease, client_that_is_dropped,
	  time_is_over, process_ends, pid_of_a_process_that_has_ended, other_user, several_sessions,
	  limit_of_the_user, policy_and_admins_end_it, leases_that_the_policy_no_longer_allows,
	  device_is_removed, daemon_ends)
