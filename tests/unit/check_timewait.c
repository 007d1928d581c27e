/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/object/timewait.h"
#include "core/verbs/bind.h"
#include "core/verbs/conn.h"
#include "core/verbs/handover.h"
#include "core/verbs/id_life.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/resolve_route.h"
#include "tests/unit/be_user.h"
#include "tests/unit/pair.h"
#include "tests/unit/stopped.h"

/*
 * A QP number that the peer can still have in time wait is not used until time wait ends. The kernel reports the end,
 * unless the id was destroyed.
 */

/* How often the loop has set the kernel's timer, and the last expiry time. */
static unsigned n_set;
static uint64_t set_usec;

int timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *old)
{
	n_set++;
	set_usec =
		(uint64_t)spec->it_value.tv_sec * 1000000 + (uint64_t)spec->it_value.tv_nsec / 1000;
	return (int)syscall(SYS_timerfd_settime, fd, flags, spec, old);
}

/* A connect that offers a QP number in time wait is held back until the kernel reports the end. */
START_TEST(a_connect_waits_for_the_end_of_time_wait)
{
	struct rdma_conn_param p = param("again");
	struct id *active, *passive, *next;
	unsigned n;

	establish(&active, &passive);
	/* With timeout 31, time wait ends here only by the fabric's event. */
	active->handshake.qp_timeout = passive->handshake.qp_timeout = 31;
	ck_assert_int_eq(conn_disconnect(active, &why), 0);
	pair_expect(&server, 2, RDMA_CM_EVENT_DISCONNECTED, 0);
	next = pair_resolve(2, 7471);
	n = fake_count(core->fabric, FAKE_CONNECT);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	run_loop();
	ck_assert_int_eq(next->state, ID_CONNECTING);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n);
	fake_send_event_to(core->fabric, active->fabric, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	run_loop();
	/*
	 * Both ends have the same number, and the passive end is still in time wait, so the connect is still held
	 * back.
	 */
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n);
	fake_send_event_to(core->fabric, passive->fabric, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	run_loop();
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 1);
	ck_assert_mem_eq(server.events[server.n - 1].data, "again", 5);
}
END_TEST

/*
 * The ids are destroyed during time wait, so the kernel cannot report its end. The broker waits for as long as the
 * kernel would have.
 */
START_TEST(time_wait_of_a_destroyed_id)
{
	struct rdma_conn_param p = param("again");
	struct id *active, *passive, *next;
	unsigned n;

	stop_time();
	establish(&active, &passive);
	active->handshake.qp_timeout = passive->handshake.qp_timeout = 14; /* 64 ms */
	id_free(active);
	id_free(passive);
	run_loop();
	next = pair_resolve(2, 7471);
	n = fake_count(core->fabric, FAKE_CONNECT);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n);
	step_time(64001);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 1);
	ck_assert_int_eq(next->state, ID_CONNECTING);
	run_loop();
	/* A connect that was sent and is not answered yet can be ended, too. */
	ck_assert_int_eq(conn_disconnect(next, &why), 0);
}
END_TEST

/* One timer ends each time wait when it is over, in whatever order the ids are destroyed. */
START_TEST(time_waits_of_different_durations)
{
	struct rdma_conn_param p = param("again");
	struct id *active, *passive, *next;

	stop_time();
	establish(&active, &passive);
	active->handshake.qp_timeout = 9; /* 2 ms */
	passive->handshake.qp_timeout = 20; /* 4 s */
	passive->handshake.qpn = QPN + 1;
	id_free(passive);
	id_free(active);
	run_loop();
	ck_assert_uint_le(core->timewaits->n, 2);
	next = pair_resolve(2, 7471);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	step_time(2001);
	ck_assert_uint_eq(server.n, 3);
	ck_assert_int_eq(server.events[2].type, RDMA_CM_EVENT_CONNECT_REQUEST);
	/* The time wait of PASSIVE goes on. */
	step_time(50000);
	ck_assert_uint_eq(core->timewaits->n, 1);
	ck_assert_uint_eq(core->timewaits->n_orphans, 1);
}
END_TEST

/* The timer does not free the entry of an id that exists. After time wait, the entry is freed with the id. */
START_TEST(time_wait_of_an_id_that_is_destroyed_late)
{
	struct id *active, *passive;

	stop_time();
	establish(&active, &passive);
	active->handshake.qp_timeout = 9;
	passive->handshake.qp_timeout = 10;
	passive->handshake.qpn = QPN + 1;
	ck_assert_int_eq(conn_disconnect(active, &why), 0);
	run_loop();
	ck_assert_uint_eq(core->timewaits->n, 2);
	/* This call starts the timer, which frees the entry of PASSIVE, but not that of ACTIVE. */
	id_free(passive);
	step_time(1000000);
	ck_assert_uint_eq(core->timewaits->n, 1);
	ck_assert_ptr_nonnull(active->handshake.timewait);
	id_free(active);
	ck_assert_uint_eq(core->timewaits->n, 0);
}
END_TEST

START_TEST(time_wait_of_an_imported_id)
{
	struct rdma_conn_param p = param("again");
	struct id *active, *passive, *next, *moved;
	unsigned n;
	int fd;

	stop_time();
	establish(&active, &passive);
	active->handshake.qp_timeout = passive->handshake.qp_timeout = 14; /* 64 ms */
	id_free(active);
	id_free(passive);
	run_loop();
	next = pair_resolve(2, 7471);
	n = fake_count(core->fabric, FAKE_CONNECT);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n);
	ck_assert_int_eq(handover_export(next, &fd, &why), 0);
	ck_assert_int_eq(handover_import(server.session, fd, &moved, &why), 0);
	close(fd);
	ck_assert_int_eq(next->state, ID_MOVED);
	id_free(next);
	step_time(64001);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 1);
	ck_assert_int_eq(moved->state, ID_CONNECTING);
	run_loop();
}
END_TEST

/* Checks that a connect of the client's new id HANDLE with the same QP number is sent at once. */
static void expect_no_time_wait(uint32_t handle)
{
	struct rdma_conn_param p = param("again");
	struct id *next = pair_resolve(handle, 7471);
	unsigned n = fake_count(core->fabric, FAKE_CONNECT);

	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 1);
	run_loop();
}

/* The ids are destroyed after their time wait has ended, and time wait must not begin again. */
START_TEST(no_second_time_wait_of_a_destroyed_id)
{
	struct id *active, *passive;

	pair_enter_time_wait(&active, &passive);
	pair_end_time_wait(active, passive);
	ck_assert_uint_eq(id_get_qpn(active), QPN);
	id_free(active);
	id_free(passive);
	expect_no_time_wait(2);
}
END_TEST

/* The broker's timer ended the time wait, because a connect was held back. */
START_TEST(no_second_time_wait_after_the_timer)
{
	struct rdma_conn_param p = param("again");
	struct id *active, *passive, *next;
	unsigned n;

	stop_time();
	establish(&active, &passive);
	active->handshake.qp_timeout = passive->handshake.qp_timeout = 14; /* 64 ms */
	ck_assert_int_eq(conn_disconnect(active, &why), 0);
	pair_expect(&server, 2, RDMA_CM_EVENT_DISCONNECTED, 0);
	next = pair_resolve(2, 7471);
	n = fake_count(core->fabric, FAKE_CONNECT);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n);
	step_time(64001);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 1);
	run_loop();
	active->handshake.qp_timeout = passive->handshake.qp_timeout = 31;
	id_free(active);
	id_free(passive);
	expect_no_time_wait(3);
}
END_TEST

/* An id whose time wait is over is imported. Neither the import nor the id's end begins a time wait. */
START_TEST(no_second_time_wait_of_an_imported_id)
{
	struct id *active, *passive, *moved;
	int fd;

	pair_enter_time_wait(&active, &passive);
	pair_end_time_wait(active, passive);
	ck_assert_int_eq(handover_export(active, &fd, &why), 0);
	ck_assert_int_eq(handover_import(server.session, fd, &moved, &why), 0);
	close(fd);
	ck_assert_int_eq(moved->state, ID_DISCONNECTED);
	ck_assert_uint_eq(id_get_qpn(moved), QPN);
	expect_no_time_wait(2);
	id_free(moved);
	expect_no_time_wait(3);
}
END_TEST

/* The kernel's timer is set for the end of the time wait, and the connect is sent then. */
START_TEST(a_held_connect_is_sent_exactly_at_the_end)
{
	struct rdma_conn_param p = param("again");
	struct id *active, *passive, *next;
	uint64_t end;
	unsigned n;

	stop_time();
	establish(&active, &passive);
	active->handshake.qp_timeout = passive->handshake.qp_timeout = 14; /* 64 ms */
	step_time(12345);
	id_free(active);
	id_free(passive);
	run_loop();
	end = stopped_usec + 64000;
	ck_assert_uint_gt(set_usec, end);
	next = pair_resolve(2, 7471);
	n = fake_count(core->fabric, FAKE_CONNECT);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	run_loop();
	ck_assert_uint_eq(set_usec, end);
	step_time(63999);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n);
	step_time(1);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 1);
}
END_TEST

/*
 * One QP number has two time waits. The shorter one must not hide the longer one, nor the longer one delay a connect
 * after its end.
 */
START_TEST(two_time_waits_of_a_number)
{
	struct rdma_conn_param p = param("again");
	struct id *active, *passive, *next;
	unsigned n;

	stop_time();
	establish(&active, &passive);
	active->handshake.qp_timeout = 9; /* 2 ms */
	passive->handshake.qp_timeout = 14; /* 64 ms */
	id_free(active);
	run_loop();
	id_free(passive);
	next = pair_resolve(2, 7471);
	step_time(2000);
	ck_assert_uint_eq(core->timewaits->n, 1);
	n = fake_count(core->fabric, FAKE_CONNECT);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n);
	id_free(next);
	next = pair_resolve(3, 7471);
	stopped_usec += 62000;
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 1);
	run_loop();
	step_time(50000);
	ck_assert_uint_eq(core->timewaits->n, 0);
}
END_TEST

/* The kernel's timer frees the entries, even if nothing else happens in the broker. */
START_TEST(entries_are_freed_without_traffic)
{
	struct id *active, *passive;

	establish(&active, &passive);
	active->handshake.qp_timeout = passive->handshake.qp_timeout = 14; /* 64 ms */
	id_free(active);
	id_free(passive);
	run_loop();
	while (core->timewaits->n > 0)
		ck_assert_int_gt(sd_event_run(loop, PATIENCE_MS * 1000ULL), 0);
	ck_assert_uint_eq(core->timewaits->n_orphans, 0);
}
END_TEST

#define N_ROW 90 /* number of ids, within the session's limit */

/* Makes the client's ids 1 to N_ROW, as if each had a connection with a time wait of 64 ms. */
static void make_row(struct id **ids)
{
	for (uint32_t i = 0; i < N_ROW; i++) {
		ids[i] = make(&client, i + 1);
		ck_assert_int_eq(bind_addr(ids[i], pair_addr("10.9.0.1", 0), &why), 0);
		ids[i]->handshake.qpn = QPN + i;
		ids[i]->handshake.qp_timeout = 14;
	}
	stop_time();
	run_loop();
	n_set = 0;
}

static void end_row(void)
{
	for (int i = 0; i < N_ROW; i++)
		step_time(1000);
	step_time(64000);
	ck_assert_uint_eq(core->timewaits->n, 0);
	/* The timer is set for the first time wait and, every 50 ms, for the next one. */
	ck_assert_uint_ge(n_set, 1);
	ck_assert_uint_le(n_set, N_ROW / 10);
}

/* Connections that end 1 ms apart do not each set the kernel's timer. */
START_TEST(a_row_of_connections_sets_few_timers)
{
	struct id *ids[N_ROW];

	make_row(ids);
	for (int i = 0; i < N_ROW; i++) {
		timewait_enter(ids[i]);
		id_free(ids[i]);
		step_time(1000);
	}
	end_row();
}
END_TEST

/* The ids are destroyed in reverse order, so each time wait ends before those that began earlier. */
START_TEST(a_row_destroyed_backwards_sets_few_timers)
{
	struct id *ids[N_ROW];

	make_row(ids);
	for (int i = 0; i < N_ROW; i++) {
		timewait_enter(ids[i]);
		stopped_usec += 100;
	}
	for (int i = N_ROW - 1; i >= 0; i--) {
		id_free(ids[i]);
		run_loop();
	}
	end_row();
}
END_TEST

/* ---- whom a time wait concerns ---- */

/* Connects a new id of the client to IP, with the number that is in time wait. Returns whether the connect was sent. */
static bool is_sent_to(uint32_t handle, const char *ip)
{
	struct rdma_conn_param p = param("again");
	struct id *id = make(&client, handle);
	unsigned n = fake_count(core->fabric, FAKE_CONNECT);

	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr(ip, 7471), 100, ROUTE_LATER, &why), 0);
	run_loop();
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	run_loop();
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), 0);
	run_loop();
	return fake_count(core->fabric, FAKE_CONNECT) == n + 1;
}

/* A user's ACK timeout does not delay connects of the same number to other peers. */
START_TEST(a_time_wait_is_of_one_peer)
{
	struct id *active, *passive;

	pair_enter_time_wait(&active, &passive);
	ck_assert(!is_sent_to(2, "10.9.0.1"));
	ck_assert(is_sent_to(3, "10.9.0.2"));
}
END_TEST

/* ACK timeout 31 holds back the user's own connects for a minute, and those of another user for four seconds. */
START_TEST(a_time_wait_of_another_user)
{
	struct id *active, *passive;
	unsigned n;

	stop_time();
	pair_enter_time_wait(&active, &passive);
	n = fake_count(core->fabric, FAKE_CONNECT);
	ck_assert(!is_sent_to(2, "10.9.0.1"));
	be_user(client.session, client.session->identity.uid + 1);
	ck_assert(!is_sent_to(3, "10.9.0.1"));
	step_time(TIMEWAIT_OTHERS_USEC - 1);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n);
	step_time(1);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 1);
	ck_assert(is_sent_to(4, "10.9.0.1"));
	step_time(TIMEWAIT_MAX_USEC - TIMEWAIT_OTHERS_USEC - 1);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 2);
	step_time(1);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 3);
	be_user(client.session, client.session->identity.uid - 1);
}
END_TEST

/* ---- many ---- */

#define N_HELD 80

/* Holds back the connects of ids FIRST and following, all of one number to one peer. */
static void hold_many(uint32_t first, uint32_t n)
{
	struct rdma_conn_param p = param("again");

	for (uint32_t i = 0; i < n; i++) {
		struct id *id;

		client.n = 0;
		id = pair_resolve(first + i, 7471);
		ck_assert_int_eq(conn_connect(id, &p, NULL, &why), 0);
		ck_assert_ptr_nonnull(id->handshake.held);
	}
}

/* What waits for one time wait is sent some at a time, and one owner's connects do not wait for all of another's. */
START_TEST(held_connects_are_sent_in_slices)
{
	struct id *active, *passive, *last;
	unsigned n, n_before, most = 0;

	stop_time();
	pair_enter_time_wait(&active, &passive);
	hold_many(2, N_HELD);
	be_user(client.session, client.session->identity.uid + 1);
	hold_many(2 + N_HELD, 1);
	be_user(client.session, client.session->identity.uid - 1);
	ck_assert_int_eq(table_find(client.session, 2 + N_HELD, &last, &why), 0);
	n_before = n = fake_count(core->fabric, FAKE_CONNECT);
	timewait_exit(active);
	timewait_exit(passive);
	do {
		unsigned now = fake_count(core->fabric, FAKE_CONNECT);

		most = now - n > most ? now - n : most;
		n = now;
		ck_assert(!last->handshake.held || n < n_before + N_HELD / 2);
		ck_assert_int_ge(sd_event_run(loop, 0), 0);
	} while (n < n_before + N_HELD + 1);
	ck_assert_uint_le(most, N_HELD / 4);
	run_loop();
}
END_TEST

/* Connections of one number to one peer have one time wait, which ends with the last of them. */
START_TEST(connections_of_one_number)
{
	struct rdma_conn_param p = param("again");
	struct id *ids[N_ROW], *next;
	unsigned n;

	stop_time();
	for (uint32_t i = 0; i < N_ROW; i++) {
		client.n = 0;
		ids[i] = pair_resolve(i + 2, 7471);
	}
	for (uint32_t i = 0; i < N_ROW; i++) {
		ids[i]->handshake.qpn = QPN;
		ids[i]->handshake.qp_timeout = 14; /* 64 ms */
		timewait_enter(ids[i]);
		stopped_usec += 100;
	}
	ck_assert_uint_eq(core->timewaits->n, 1);
	for (uint32_t i = 0; i < N_ROW; i += 2)
		timewait_exit(ids[i]);
	for (uint32_t i = 1; i < N_ROW; i += 2)
		id_free(ids[i]);
	client.n = 0;
	next = pair_resolve(1, 7471);
	n = fake_count(core->fabric, FAKE_CONNECT);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	step_time(64000 - 101);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n);
	step_time(1);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n + 1);
	step_time(50000);
	ck_assert_uint_eq(core->timewaits->n, 0);
}
END_TEST

/* A user who ends more connections than can be kept loses time waits of his own, and no memory grows. */
START_TEST(time_waits_of_one_owner_are_bounded)
{
	struct id *id = pair_resolve(1, 7471);

	stop_time();
	id->handshake.qp_timeout = 31;
	for (uint32_t i = 1; i <= TIMEWAIT_PER_OWNER + 100; i++) {
		id->handshake.qpn = i;
		timewait_enter(id);
		timewait_forget(id);
	}
	ck_assert_uint_eq(core->timewaits->n, TIMEWAIT_PER_OWNER);
	be_user(client.session, client.session->identity.uid + 1);
	timewait_enter(id);
	timewait_forget(id);
	be_user(client.session, client.session->identity.uid - 1);
	ck_assert_uint_eq(core->timewaits->n, TIMEWAIT_PER_OWNER + 1);
	step_time(TIMEWAIT_MAX_USEC);
	ck_assert_uint_eq(core->timewaits->n, 0);
	ck_assert_uint_eq(core->timewaits->n_orphans, 0);
}
END_TEST

UNIT_MAIN("timewait", pair_set_up, pair_tear_down, a_connect_waits_for_the_end_of_time_wait,
	  time_wait_of_a_destroyed_id, time_waits_of_different_durations,
	  time_wait_of_an_id_that_is_destroyed_late, time_wait_of_an_imported_id,
	  no_second_time_wait_of_a_destroyed_id, no_second_time_wait_after_the_timer,
	  no_second_time_wait_of_an_imported_id, a_held_connect_is_sent_exactly_at_the_end,
	  two_time_waits_of_a_number, entries_are_freed_without_traffic,
	  a_row_of_connections_sets_few_timers, a_row_destroyed_backwards_sets_few_timers,
	  a_time_wait_is_of_one_peer, a_time_wait_of_another_user, held_connects_are_sent_in_slices,
	  connections_of_one_number, time_waits_of_one_owner_are_bounded)
