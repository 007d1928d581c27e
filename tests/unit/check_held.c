/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/object/held.h"
#include "core/verbs/conn.h"
#include "core/verbs/handover.h"
#include "core/verbs/id_life.h"
#include "tests/unit/pair.h"
#include "tests/unit/stopped.h"

/* A connect or accept that was held back. Its QP number can be another process's when the time wait is over. */

static struct id *active, *passive, *next;

/* The client's id 2 waits with its connect, and then with the look-up of its number. */
static void wait_for_the_look_up(void)
{
	struct rdma_conn_param p = param("again");

	pair_enter_time_wait(&active, &passive);
	next = pair_resolve(2, 7471);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	fake_hold_lookups(core->fabric, true);
	pair_end_time_wait(active, passive);
	ck_assert_int_eq(next->state, ID_CONNECTING);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 1);
}

static void answer(void)
{
	fake_hold_lookups(core->fabric, false);
	run_loop();
}

/* As event I of RECORD. */
static void expect_refused(struct record *record, unsigned i)
{
	pair_expect(record, i, RDMA_CM_EVENT_CONNECT_ERROR, -EPERM);
	ck_assert_ptr_nonnull(strstr(record->events[i].text, "does not belong"));
	ck_assert_int_eq(next->state, ID_FAILED);
	ck_assert_ptr_null(next->handshake.held);
}

START_TEST(a_held_connect_is_looked_up_again)
{
	struct rdma_conn_param p = param("again");

	pair_enter_time_wait(&active, &passive);
	next = pair_resolve(2, 7471);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	fake_estrange_qp(core->fabric, QPN);
	pair_end_time_wait(active, passive);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 1);
	expect_refused(&client, client.n - 1);
}
END_TEST

START_TEST(a_held_accept_is_looked_up_again)
{
	struct rdma_conn_param p = param("again"), other = param("other");

	pair_enter_time_wait(&active, &passive);
	other.qp_num = QPN + 1;
	ck_assert_int_eq(conn_connect(pair_resolve(2, 7471), &other, NULL, &why), 0);
	run_loop();
	ck_assert_int_eq(
		table_find(server.session, server.events[server.n - 1].request, &next, &why), 0);
	ck_assert_int_eq(conn_accept(next, &p, NULL, &why), 0);
	ck_assert_ptr_nonnull(next->handshake.held);
	fake_estrange_qp(core->fabric, QPN);
	pair_end_time_wait(active, passive);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_ACCEPT), 1);
	expect_refused(&server, server.n - 1);
	/* The peer does not wait for its timeout. */
	pair_expect(&client, client.n - 1, RDMA_CM_EVENT_REJECTED, 28);
}
END_TEST

/* What becomes of the id while the number is looked up. */
START_TEST(a_look_up_of_a_held_connect)
{
	wait_for_the_look_up();
	answer();
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 2);
	ck_assert_ptr_null(next->handshake.held);
}
END_TEST

START_TEST(a_look_up_of_an_id_that_is_destroyed)
{
	wait_for_the_look_up();
	id_free(next);
	answer();
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 1);
}
END_TEST

START_TEST(a_look_up_of_an_id_that_is_disconnected)
{
	wait_for_the_look_up();
	ck_assert_int_eq(conn_disconnect(next, &why), 0);
	ck_assert_int_eq(next->state, ID_FAILED);
	answer();
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 1);
}
END_TEST

/* The answer is about the exporter's process. The importer's is another one, which does not have the QP. */
START_TEST(a_look_up_of_an_id_that_is_imported)
{
	struct id *moved;
	int fd;

	wait_for_the_look_up();
	ck_assert_int_eq(handover_export(next, &fd, &why), 0);
	server.session->identity.pid = 1;
	ck_assert_int_eq(handover_import(server.session, fd, &moved, &why), 0);
	close(fd);
	fake_give_qp(core->fabric, QPN, client.session->identity.pid);
	next = moved;
	answer();
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 1);
	expect_refused(&server, server.n - 1);
}
END_TEST

/* It is not known which process the importer is, so that its pid, by which the look-up goes, says nothing. */
START_TEST(a_look_up_of_an_id_that_a_stranger_imports)
{
	struct id *moved;
	int fd;

	wait_for_the_look_up();
	ck_assert_int_eq(handover_export(next, &fd, &why), 0);
	server.session->identity.proven = false;
	ck_assert_int_eq(handover_import(server.session, fd, &moved, &why), 0);
	close(fd);
	next = moved;
	answer();
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 1);
	pair_expect(&server, server.n - 1, RDMA_CM_EVENT_CONNECT_ERROR, -EPERM);
	ck_assert_ptr_nonnull(strstr(server.events[server.n - 1].text, "cannot verify"));
	server.session->identity.proven = true;
}
END_TEST

/* The peer gives up meanwhile. An accept of a request that has ended must not be sent. */
START_TEST(an_id_that_fails_while_it_is_held_back)
{
	unsigned n;

	wait_for_the_look_up();
	fake_send_event_to(core->fabric, next->fabric, RDMA_CM_EVENT_CONNECT_ERROR, -ETIMEDOUT);
	run_loop();
	ck_assert_int_eq(next->state, ID_FAILED);
	n = client.n;
	answer();
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 1);
	ck_assert_uint_eq(client.n, n);
	ck_assert_ptr_null(next->handshake.held);
}
END_TEST

/* Another connection of the number ends during the look-up. The connect waits again, and the answer is too old then. */
START_TEST(a_time_wait_during_the_look_up)
{
	struct rdma_conn_param p = param("more");
	struct id *other, *request;

	stop_time();
	establish(&active, &passive);
	active->handshake.qp_timeout = passive->handshake.qp_timeout = 14;
	other = pair_resolve(2, 7471);
	ck_assert_int_eq(conn_connect(other, &p, NULL, &why), 0);
	run_loop();
	ck_assert_int_eq(
		table_find(server.session, server.events[server.n - 1].request, &request, &why), 0);
	p.qp_num = QPN + 1;
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), 0);
	run_loop();
	ck_assert_int_eq(conn_establish(other, &why), 0);
	id_free(active);
	id_free(passive);
	run_loop();

	next = pair_resolve(3, 7471);
	p.qp_num = QPN;
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	ck_assert_ptr_nonnull(next->handshake.held);
	fake_hold_lookups(core->fabric, true);
	step_time(64000);
	ck_assert_ptr_nonnull(next->handshake.held->lookup);
	other->handshake.qp_timeout = 14;
	id_free(other);
	answer();
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 2);
	fake_estrange_qp(core->fabric, QPN);
	step_time(64000);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 2);
	expect_refused(&client, client.n - 1);
}
END_TEST

/* A drain that has begun meanwhile lets nothing new go out. */
START_TEST(a_held_connect_during_a_drain)
{
	struct rdma_conn_param p = param("again");

	pair_enter_time_wait(&active, &passive);
	next = pair_resolve(2, 7471);
	ck_assert_int_eq(conn_connect(next, &p, NULL, &why), 0);
	core->draining = true;
	pair_end_time_wait(active, passive);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 1);
	pair_expect(&client, client.n - 1, RDMA_CM_EVENT_CONNECT_ERROR, -ESHUTDOWN);
	core->draining = false;
}
END_TEST

UNIT_MAIN("held", pair_set_up, pair_tear_down, a_held_connect_is_looked_up_again,
	  a_held_accept_is_looked_up_again, a_look_up_of_a_held_connect,
	  a_look_up_of_an_id_that_is_destroyed, a_look_up_of_an_id_that_is_disconnected,
	  a_look_up_of_an_id_that_is_imported, a_look_up_of_an_id_that_a_stranger_imports,
	  an_id_that_fails_while_it_is_held_back, a_time_wait_during_the_look_up,
	  a_held_connect_during_a_drain)
