/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "rpc/newcomers.h"
#include "tests/unit/three.h"
#include "tests/unit/unit.h"
#include "util/log.h"
#include "util/util.h"

/*
 * Some work is done outside the loop, such as finding a QP's owner or changing a node's ACL. Only the client that
 * causes the work waits for it.
 */

#define REQUESTS 1000

static void set_up(void)
{
	three_start();
	three_resolve(1);
	three_hold(true);
}

START_TEST(others_are_served)
{
	three_send(&active, OP(CONNECT), 1, false);
	ck_assert_uint_eq(active.n_answers, 0);
	for (unsigned i = 0; i < REQUESTS; i++)
		three_ask(&other, OP(LIST_DEVICES), 0);
	ck_assert_uint_eq(active.n_answers, 0);
	ck_assert_int_eq(three_state_of(&active, 1), ID_ROUTE_RESOLVED);
	fake_hold_lookups(wire.core->fabric, false);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, 0);
	ck_assert_int_eq(three_state_of(&active, 1), ID_CONNECTING);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_QP_BELONGS), 1);
}
END_TEST

/* The requests of one client are processed in order, so the later one waits, too. */
START_TEST(the_clients_own_requests_wait)
{
	uint8_t buf[PACKET_MAX];

	three_send(&active, OP(CONNECT), 1, false);
	wire_send(&active, buf, wire_make(&active, OP(LIST_DEVICES), 0, buf), NULL);
	three_run();
	ck_assert_uint_eq(active.n_answers, 0);
	fake_hold_lookups(wire.core->fabric, false);
	three_run();
	/* n_answers counts only replies to the last request. */
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, 0);
	ck_assert_int_eq(three_state_of(&active, 1), ID_CONNECTING);
}
END_TEST

START_TEST(a_request_that_waits_to_be_accepted)
{
	fake_hold_lookups(wire.core->fabric, false);
	three_ask(&active, OP(CONNECT), 1);
	fake_hold_lookups(wire.core->fabric, true);
	ck_assert_uint_ne(passive.request, 0);
	three_send(&passive, OP(ACCEPT), passive.request, false);
	ck_assert_uint_eq(passive.n_answers, 0);
	ck_assert_int_eq(three_state_of(&passive, passive.request), ID_REQUEST);
	fake_hold_lookups(wire.core->fabric, false);
	three_run();
	ck_assert_int_eq(passive.status, 0);
	ck_assert_int_eq(three_state_of(&passive, passive.request), ID_ACCEPTED);
}
END_TEST

/* The look-up finds another owner, so the connect is refused. The next request gets a look-up of its own. */
START_TEST(a_result_is_used_once)
{
	fake_estrange_qp(wire.core->fabric, 17);
	three_send(&active, OP(CONNECT), 1, false);
	fake_hold_lookups(wire.core->fabric, false);
	three_run();
	ck_assert_int_eq(active.error, EPERM);
	fake_estrange_qp(wire.core->fabric, 0);
	three_ask(&active, OP(CONNECT), 1);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_QP_BELONGS), 2);
}
END_TEST

/* The request is decided by the policy that is in force when the request continues. */
START_TEST(policy_changes_during_the_wait)
{
	three_send(&active, OP(CONNECT), 1, false);
	wire_set_policy("allow session\nallow device\nallow listen\n");
	fake_hold_lookups(wire.core->fabric, false);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.error, EACCES);
	ck_assert_int_eq(three_state_of(&active, 1), ID_ROUTE_RESOLVED);
}
END_TEST

/* Whether a rule with "qp reserved" accepts the number is also decided when the request continues. */
START_TEST(the_rule_for_reserved_numbers_changes_during_the_wait)
{
	fake_hide_qp(wire.core->fabric, 17);
	wire_set_policy("allow any qp reserved\n");
	three_send(&active, OP(CONNECT), 1, false);
	wire_set_policy("allow any\n");
	fake_hold_lookups(wire.core->fabric, false);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.error, EPERM);
	ck_assert_int_eq(three_state_of(&active, 1), ID_ROUTE_RESOLVED);

	fake_hold_lookups(wire.core->fabric, true);
	three_send(&active, OP(CONNECT), 1, false);
	wire_set_policy("allow any qp reserved\n");
	fake_hold_lookups(wire.core->fabric, false);
	three_run();
	ck_assert_int_eq(active.error, 0);
	ck_assert_int_eq(three_state_of(&active, 1), ID_CONNECTING);
}
END_TEST

START_TEST(the_device_is_removed_during_the_wait)
{
	three_send(&active, OP(CONNECT), 1, false);
	fake_remove_device(wire.core->fabric, "fake0");
	three_run();
	fake_hold_lookups(wire.core->fabric, false);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_gt(active.status, 0);
	ck_assert_int_eq(three_state_of(&active, 1), ID_REMOVED);
	fake_add_device(wire.core->fabric, "fake0");
}
END_TEST

/* If another session imports the id, the waiting client gets an error, and continues. */
START_TEST(the_id_is_imported_during_the_wait)
{
	uint8_t buf[PACKET_MAX];

	three_ask(&active, OP(EXPORT_ID), 1);
	ck_assert_int_ge(active.fd, 0);
	three_send(&active, OP(CONNECT), 1, false);
	ck_assert_uint_eq(active.n_answers, 0);
	wire_send(&other, buf, wire_make(&other, OP(IMPORT_ID), 0, buf), &active.fd);
	three_run();
	ck_assert_int_eq(other.status, 0);
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_gt(active.status, 0);
	ck_assert_int_eq(three_state_of(&active, 1), ID_MOVED);
	three_ask(&active, OP(LIST_DEVICES), 0);
}
END_TEST

/* The client's end is noticed although its socket is not being read. The result of the look-up is dropped. */
START_TEST(the_client_ends_during_the_wait)
{
	three_send(&active, OP(CONNECT), 1, false);
	wire_close(&active);
	three_run();
	ck_assert_uint_eq(wire.core->n_sessions, 2);
	fake_hold_lookups(wire.core->fabric, false);
	three_run();
}
END_TEST

/* Requests to bind id 2 to port 7500, which another id has until fake_destroy_id(). */
static void bind_to_a_port_that_is_being_freed(void)
{
	/* The fields of an address, 10.9.0.1 port 7500. */
	static const uint8_t addr[] = "\x12\x09\x0a\x04\x0a\x09\x00\x01\x10\xcc\x3a";
	uint8_t buf[PACKET_MAX];

	three_ask(&active, OP(CREATE_ID), 2);
	fake_fail_next(wire.core->fabric, FAKE_BIND, -EINPROGRESS);
	active.n_answers = 0;
	wire_send(&active, buf,
		  request_make(++active.serial, OP(BIND_ADDR), 2, addr, sizeof(addr) - 1, buf),
		  NULL);
}

START_TEST(a_port_that_is_being_freed)
{
	unsigned n;

	bind_to_a_port_that_is_being_freed();
	three_run();
	ck_assert_uint_eq(active.n_answers, 0);
	for (unsigned i = 0; i < REQUESTS; i++)
		three_ask(&other, OP(LIST_DEVICES), 0);
	n = fake_count(wire.core->fabric, FAKE_BIND);
	/* An id with another port is destroyed, so the bind is not tried again. */
	fake_destroy_id(wire.core->fabric, 7501);
	three_run();
	ck_assert_uint_eq(active.n_answers, 0);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_BIND), n);
	/* Two ids have this port. Only one of them is destroyed, so the bind still waits. */
	fake_fail_next(wire.core->fabric, FAKE_BIND, -EINPROGRESS);
	fake_destroy_id(wire.core->fabric, 7500);
	three_run();
	ck_assert_uint_eq(active.n_answers, 0);
	fake_destroy_id(wire.core->fabric, 7500);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, 0);
	ck_assert_int_eq(three_state_of(&active, 2), ID_BOUND);
}
END_TEST

/* With REUSEADDR an id can be bound to the port of an id that is being destroyed, but cannot listen there yet. */
START_TEST(a_listen_on_a_port_that_is_being_freed)
{
	bind_to_a_port_that_is_being_freed();
	three_run();
	fake_destroy_id(wire.core->fabric, 7500);
	three_run();
	ck_assert_int_eq(three_state_of(&active, 2), ID_BOUND);
	fake_fail_next(wire.core->fabric, FAKE_LISTEN, -EINPROGRESS);
	three_send(&active, OP(LISTEN), 2, false);
	ck_assert_uint_eq(active.n_answers, 0);
	fake_destroy_id(wire.core->fabric, 7501);
	three_run();
	ck_assert_uint_eq(active.n_answers, 0);
	ck_assert_int_eq(three_state_of(&active, 2), ID_BOUND);
	fake_destroy_id(wire.core->fabric, 7500);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, 0);
	ck_assert_int_eq(three_state_of(&active, 2), ID_LISTENING);
}
END_TEST

/* The bind is tried once more at the deadline, and then fails. */
START_TEST(a_port_that_is_never_freed)
{
	wire.core->waits->max_ms = 0;
	bind_to_a_port_that_is_being_freed();
	while (fake_count(wire.core->fabric, FAKE_BIND) < 2)
		ck_assert_int_gt(sd_event_run(wire.loop, 0), 0);
	fake_fail_next(wire.core->fabric, FAKE_BIND, -EINPROGRESS);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, STATUS_FABRIC);
	ck_assert_int_eq(active.error, EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(active.text, "bind 10.9.0.1:7500"));
	ck_assert_int_eq(three_state_of(&active, 2), ID_IDLE);
}
END_TEST

/* librdmacm holds a mutex while it opens a device. Calls that need the mutex are made only afterwards. */
START_TEST(devices_that_take_long_to_open)
{
	static const int ops[] = { OP(BIND_ADDR), OP(LISTEN), OP(RESOLVE_ADDR) };

	fake_hold_devices(wire.core->fabric, true);
	for (size_t i = 0; i < ELEMENTS_OF(ops); i++) {
		uint32_t id = 2 + (uint32_t)i;

		three_ask(&passive, OP(CREATE_ID), id);
		three_send(&passive, ops[i], id, false);
		ck_assert_uint_eq(passive.n_answers, 0);
		for (unsigned n = 0; n < REQUESTS; n++)
			three_ask(&other, OP(LIST_DEVICES), 0);
		ck_assert_uint_eq(passive.n_answers, 0);
		fake_hold_devices(wire.core->fabric, false);
		three_run();
		ck_assert_uint_eq(passive.n_answers, 1);
		ck_assert_int_eq(passive.status, 0);
		fake_hold_devices(wire.core->fabric, true);
	}
	ck_assert_int_eq(three_state_of(&passive, 2), ID_BOUND);
	ck_assert_int_eq(three_state_of(&passive, 3), ID_LISTENING);
	ck_assert_int_eq(three_state_of(&passive, 4), ID_ADDR_RESOLVED);
	fake_hold_devices(wire.core->fabric, false);
}
END_TEST

START_TEST(devices_that_are_never_open)
{
	three_ask(&passive, OP(CREATE_ID), 2);
	fake_hold_devices(wire.core->fabric, true);
	wire.core->waits->max_ms = 0;
	three_send(&passive, OP(BIND_ADDR), 2, false);
	ck_assert_uint_eq(passive.n_answers, 1);
	ck_assert_int_eq(passive.error, ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(passive.text, "devices are still being opened"));
}
END_TEST

/* The client's unit is looked up before the reply to hello. A test holds this lock to make the look-up wait. */
static pthread_mutex_t unit_lock = PTHREAD_MUTEX_INITIALIZER;

/* Replaces libsystemd's function. */
int sd_pid_get_unit(pid_t pid, char **ret)
{
	pthread_mutex_lock(&unit_lock);
	pthread_mutex_unlock(&unit_lock);
	return -ENODATA;
}

#define MANY (NEWCOMERS_PER_USER + 10)

START_TEST(units_that_take_long)
{
	static struct wire_client many[MANY];
	struct wire_client *all[MANY];
	uint8_t buf[PACKET_MAX];

	pthread_mutex_lock(&unit_lock);
	wire.n_asking = MANY;
	for (unsigned i = 0; i < MANY; i++) {
		all[i] = &many[i];
		wire_connect(&many[i]);
		wire_send(&many[i], buf, wire_make(&many[i], OP(HELLO), 0, buf), NULL);
		wire_run(&all[i], 1);
	}
	for (unsigned i = 0; i < REQUESTS; i++)
		three_ask(&other, OP(LIST_DEVICES), 0);
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_uint_eq(many[i].n_answers, 0);
	pthread_mutex_unlock(&unit_lock);
	wire.n_asking = 0;
	wire_run(all, MANY);
	/* The clients had sent a hello, so none of them was dropped as silent. */
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert(!many[i].dropped);
		ck_assert_uint_eq(many[i].n_answers, 1);
		ck_assert_int_eq(many[i].status, 0);
		wire_close(&many[i]);
	}
}
END_TEST

/* A thread changes the ACL of the device node, which can take long. */
START_TEST(a_lease_that_takes_long)
{
	struct fabric_device *device = fabric_next_device(wire.core->fabric, NULL);

	fake_hold_leases(wire.core->fabric, true);
	three_send(&active, OP(OPEN_DEVICE), 0, false);
	ck_assert_uint_eq(active.n_answers, 0);
	for (unsigned i = 0; i < REQUESTS; i++)
		three_ask(&other, OP(LIST_DEVICES), 0);
	ck_assert_uint_eq(active.n_answers, 0);
	fake_hold_leases(wire.core->fabric, false);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, 0);
	ck_assert_uint_eq(wire.core->n_leases, 1);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_LEASE_NEW), 1);
	/* The request was decided twice, but is counted once. */
	ck_assert_uint_eq(wire.core->metrics.decisions[POLICY_DEVICE][DECISION_ALLOWED], 1);
	three_ask(&active, OP(CLOSE_DEVICE), 0);
	ck_assert_uint_eq(fabric_device_n_leases(device), 0);
}
END_TEST

START_TEST(a_lease_that_fails_late)
{
	fake_hold_leases(wire.core->fabric, true);
	fake_fail_next(wire.core->fabric, FAKE_LEASE_NEW, -EROFS);
	three_send(&active, OP(OPEN_DEVICE), 0, false);
	fake_hold_leases(wire.core->fabric, false);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.error, EROFS);
	ck_assert_uint_eq(wire.core->n_leases, 0);
	three_ask(&active, OP(OPEN_DEVICE), 0);
}
END_TEST

/* When the lease is ready, policy no longer allows the lease, or the device is gone. */
START_TEST(a_lease_that_comes_too_late)
{
	fake_hold_leases(wire.core->fabric, true);
	three_send(&active, OP(OPEN_DEVICE), 0, false);
	wire_set_policy("allow session\nreject device\n");
	fake_hold_leases(wire.core->fabric, false);
	three_run();
	ck_assert_int_eq(active.status, STATUS_DENIED);
	ck_assert_uint_eq(wire.core->n_leases, 0);

	wire_set_policy("allow any\n");
	fake_hold_leases(wire.core->fabric, true);
	three_send(&active, OP(OPEN_DEVICE), 0, false);
	fake_remove_device(wire.core->fabric, "fake0");
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, STATUS_NO_DEVICE);
	ck_assert_uint_eq(wire.core->n_leases, 0);
	fake_hold_leases(wire.core->fabric, false);
}
END_TEST

/* When the lease is ready, another device is the first one. The client gets a lease for that device. */
START_TEST(the_first_device_is_removed_during_the_wait)
{
	uint8_t buf[PACKET_MAX];

	fake_add_device(wire.core->fabric, "fake1");
	fake_hold_leases(wire.core->fabric, true);
	active.n_answers = 0;
	/* The request names no device. */
	wire_send(&active, buf,
		  request_make(++active.serial, OP(OPEN_DEVICE), 0, (const uint8_t *)"\x0a\0", 2,
			       buf),
		  NULL);
	three_run();
	fake_remove_device(wire.core->fabric, "fake0");
	three_run();
	ck_assert_uint_eq(active.n_answers, 0);
	fake_hold_leases(wire.core->fabric, false);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, 0);
	ck_assert_uint_eq(wire.core->n_leases, 1);
	ck_assert_uint_eq(fabric_device_n_leases(fabric_find_device(wire.core->fabric, "fake1")),
			  1);
}
END_TEST

START_TEST(the_client_ends_before_its_lease)
{
	fake_hold_leases(wire.core->fabric, true);
	three_send(&active, OP(OPEN_DEVICE), 0, false);
	wire_close(&active);
	three_run();
	ck_assert_uint_eq(wire.core->n_sessions, 2);
	ck_assert_uint_eq(wire.core->n_leases, 0);
	fake_hold_leases(wire.core->fabric, false);
	three_run();
}
END_TEST

/* A reload can look up names over the network, which takes long. Only the admin waits for it. */
START_TEST(a_reload_that_takes_long)
{
	wire.holds_reloads = true;
	three_send(&active, OP(RELOAD), 0, false);
	three_send(&passive, OP(RELOAD), 0, false);
	ck_assert_uint_eq(wire.n_reloads, 2);
	for (unsigned i = 0; i < REQUESTS; i++)
		three_ask(&other, OP(LIST_DEVICES), 0);
	ck_assert_uint_eq(active.n_answers + passive.n_answers, 0);
	/* The result of the first reload is no reply to the second request. */
	control_reloaded(server_get_control(wire.server), false, 1, 0, NULL, NULL);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, 0);
	ck_assert_uint_eq(passive.n_answers, 0);
	control_reloaded(server_get_control(wire.server), false, 2, -EIO, NULL, NULL);
	three_run();
	ck_assert_uint_eq(passive.n_answers, 1);
	ck_assert_int_eq(passive.error, EIO);
}
END_TEST

/* A failure of the daemon itself is logged with the source line where it began. */
START_TEST(where_a_failure_began)
{
	FILE *log = tmpfile();
	char line[256] = "";

	ck_assert_ptr_nonnull(log);
	wire.holds_reloads = true;
	three_send(&active, OP(RELOAD), 0, false);
	ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
	log_set_level(LOG_ERR);
	control_reloaded(server_get_control(wire.server), false, 1, -EIO, NULL, NULL);
	three_run();
	ck_assert_int_eq(active.error, EIO);
	ck_assert_int_gt(pread(fileno(log), line, sizeof(line) - 1, 0), 0);
	ck_assert_ptr_nonnull(strstr(line,
				     "cannot carry out the request reload: Input/output error "
				     "(daemon/rpc/do_policy.c:"));
	fclose(log);
}
END_TEST

/* A peer sends many requests to a program that does not read. The program's session must not end. */
START_TEST(requests_that_are_not_read)
{
	enum { N = 1500 };
	uint8_t buf[PACKET_MAX];

	fake_hold_lookups(wire.core->fabric, false);
	wire.core->settings.max_ids_per_session = 2 * N;
	wire.core->settings.backlog = N;
	/* Only a new listener gets the new backlog. */
	three_ask(&passive, OP(DESTROY_ID), 1);
	three_listen();
	for (uint32_t i = 2; i <= N + 1; i++) {
		wire_ask(&active, OP(CREATE_ID), i);
		wire_ask(&active, OP(RESOLVE_ADDR), i);
		wire_ask(&active, OP(RESOLVE_ROUTE), i);
		wire_send(&active, buf, wire_make(&active, OP(CONNECT), i, buf), NULL);
		/* wire_run() gets only the client, so the server's events are not read. */
		wire_run((struct wire_client *const[]){ &active }, 1);
		ck_assert_int_eq(active.status, 0);
	}
	/* More events are pending than the server's socket holds, and more than the limit on unread bytes. */
	ck_assert_uint_eq(passive.session->requests.n_used, N);
	ck_assert_uint_eq(wire.core->n_sessions, 3);
	ck_assert_uint_lt(wire.core->account.used[ACCOUNT_BYTES], 65536);
	/* The client destroys its ids, which causes one more event for each request. */
	for (uint32_t i = 2; i <= N + 1; i++)
		wire_ask(&active, OP(DESTROY_ID), i);
	ck_assert_uint_eq(wire.core->n_sessions, 3);
	/* All events can be read, one socket buffer at a time. */
	for (uint32_t i = 0; i < N; i++)
		wire_run((struct wire_client *const[]){ &passive }, 1);
	ck_assert(!passive.dropped);
	ck_assert_uint_ne(passive.request, 0);
	three_ask(&passive, OP(LIST_DEVICES), 0);
}
END_TEST

/* A session with many ids ends in slices. Other clients are served in between. */
START_TEST(the_end_of_a_large_session)
{
	struct wire_client *const others[] = { &other };
	enum { N = 2000 };
	uint8_t buf[PACKET_MAX];
	unsigned n_left;

	wire.core->settings.max_ids_per_session = N + 1;
	for (uint32_t i = 2; i <= N; i++)
		wire_ask(&active, OP(CREATE_ID), i);
	n_left = wire.core->n_ids;
	ck_assert_uint_gt(n_left, N);
	wire_close(&active);
	while (wire.core->n_ids == n_left)
		ck_assert_int_gt(sd_event_run(wire.loop, 0), 0);
	/* The request is sent after the session's end has begun, and is answered before that end is complete. */
	wire_send(&other, buf, wire_make(&other, OP(LIST_DEVICES), 0, buf), NULL);
	while (other.n_answers == 0) {
		ck_assert_int_gt(sd_event_run(wire.loop, 0), 0);
		wire_receive(others, 1);
	}
	ck_assert_uint_gt(wire.core->n_ids, 2);
	three_run();
	ck_assert_uint_eq(wire.core->n_sessions, 2);
}
END_TEST

UNIT_MAIN("waiting", set_up, three_end, others_are_served, the_clients_own_requests_wait,
	  a_request_that_waits_to_be_accepted, a_result_is_used_once,
	  policy_changes_during_the_wait, the_rule_for_reserved_numbers_changes_during_the_wait,
	  the_device_is_removed_during_the_wait, the_client_ends_during_the_wait,
	  the_id_is_imported_during_the_wait, a_port_that_is_being_freed,
	  a_listen_on_a_port_that_is_being_freed, a_port_that_is_never_freed,
	  devices_that_take_long_to_open, devices_that_are_never_open, units_that_take_long,
	  a_lease_that_takes_long, a_lease_that_fails_late, a_lease_that_comes_too_late,
	  the_first_device_is_removed_during_the_wait, the_client_ends_before_its_lease,
	  a_reload_that_takes_long, where_a_failure_began, requests_that_are_not_read,
	  the_end_of_a_large_session)
