/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <unistd.h>

#include "tests/unit/three.h"
#include "tests/unit/unit.h"

/* A quiet connect or accept whose QP is looked up is set aside: only requests about the same id wait for it. */

#define IDS 40 /* more than can be set aside */

static void set_up(void)
{
	three_start();
	three_resolve(1);
	three_resolve(2);
	three_hold(true);
}

START_TEST(requests_about_others_go_on)
{
	three_send(&active, OP(CONNECT), 1, true);
	ck_assert_int_eq(three_state_of(&active, 1), ID_ROUTE_RESOLVED);
	three_ask(&active, OP(LIST_DEVICES), 0);
	three_ask(&active, OP(CREATE_ID), 3);
	three_ask(&active, OP(DESTROY_ID), 3);
	three_send(&active, OP(CONNECT), 2, true);
	three_ask(&active, OP(LIST_DEVICES), 0);
	three_hold(false);
	ck_assert_int_eq(three_state_of(&active, 1), ID_CONNECTING);
	ck_assert_int_eq(three_state_of(&active, 2), ID_CONNECTING);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_QP_BELONGS), 2);
	ck_assert_uint_eq(active.n_errors, 0);
}
END_TEST

START_TEST(an_accept_is_set_aside)
{
	three_hold(false);
	three_ask(&active, OP(CONNECT), 1);
	three_hold(true);
	three_send(&passive, OP(ACCEPT), passive.request, true);
	ck_assert_int_eq(three_state_of(&passive, passive.request), ID_REQUEST);
	three_ask(&passive, OP(LIST_DEVICES), 0);
	three_hold(false);
	ck_assert_int_eq(three_state_of(&passive, passive.request), ID_ACCEPTED);
}
END_TEST

/* What the client requests of the same id comes after the connect. */
START_TEST(requests_about_the_same_wait)
{
	three_send(&active, OP(CONNECT), 1, true);
	three_send(&active, OP(DISCONNECT), 1, false);
	ck_assert_uint_eq(active.n_answers, 0);
	three_hold(false);
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, 0);
	ck_assert_int_eq(three_state_of(&active, 1), ID_DISCONNECTING);
	three_ask(&active, OP(LIST_DEVICES), 0);
}
END_TEST

START_TEST(a_destroy_waits)
{
	three_send(&active, OP(CONNECT), 1, true);
	three_send(&active, OP(DESTROY_ID), 1, false);
	ck_assert_uint_eq(active.n_answers, 0);
	three_hold(false);
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_int_eq(active.status, 0);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_CONNECT), 1);
}
END_TEST

/* The session ends with its last request. */
START_TEST(a_release_waits)
{
	three_send(&active, OP(CONNECT), 1, true);
	three_send(&active, OP(RELEASE_SESSION), 0, false);
	ck_assert_uint_eq(active.n_answers, 0);
	three_hold(false);
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_CONNECT), 1);
}
END_TEST

/* By then the client can have got the reply to a later request, so a refusal is an event, and is counted as one. */
START_TEST(a_foreign_qp_is_refused_by_an_event)
{
	uint64_t n = wire.core->metrics.refusals[STATUS_NOT_OWNER];

	fake_estrange_qp(wire.core->fabric, 17);
	three_send(&active, OP(CONNECT), 1, true);
	three_ask(&active, OP(LIST_DEVICES), 0);
	three_hold(false);
	ck_assert_uint_eq(active.n_errors, 1);
	ck_assert_int_eq(active.event_status, -EPERM);
	ck_assert_int_eq(three_state_of(&active, 1), ID_ROUTE_RESOLVED);
	ck_assert_uint_eq(wire.core->metrics.refusals[STATUS_NOT_OWNER], n + 1);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_CONNECT), 0);
	/* It can connect again, with another QP. */
	fake_estrange_qp(wire.core->fabric, 0);
	three_ask(&active, OP(CONNECT), 1);
	ck_assert_int_eq(three_state_of(&active, 1), ID_CONNECTING);
}
END_TEST

START_TEST(policy_decides_when_it_goes_on)
{
	three_send(&active, OP(CONNECT), 1, true);
	wire_set_policy("allow session\nallow device\nallow listen\n");
	three_hold(false);
	ck_assert_uint_eq(active.n_errors, 1);
	ck_assert_int_eq(active.event_status, -EACCES);
	ck_assert_int_eq(three_state_of(&active, 1), ID_ROUTE_RESOLVED);
}
END_TEST

/* The process behind the session is another one, so its QP would have to be looked up; the client has no such id any more. */
START_TEST(the_id_is_imported_meanwhile)
{
	uint8_t buf[PACKET_MAX];

	three_ask(&active, OP(EXPORT_ID), 1);
	ck_assert_int_ge(active.fd, 0);
	three_send(&active, OP(CONNECT), 1, true);
	wire_send(&other, buf, wire_make(&other, OP(IMPORT_ID), 0, buf), &active.fd);
	three_run();
	ck_assert_int_eq(other.status, 0);
	ck_assert_int_eq(three_state_of(&active, 1), ID_MOVED);
	ck_assert_uint_eq(active.n_errors, 0);
	three_hold(false);
	three_ask(&active, OP(DESTROY_ID), 1);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_CONNECT), 0);
}
END_TEST

/*
 * The answer comes while another request of the session waits, and is not used after that wait: by then the number can be that
 * of another process's QP.
 */
START_TEST(an_answer_does_not_outlive_a_wait)
{
	three_send(&active, OP(CONNECT), 1, true);
	wire.holds_reloads = true;
	three_send(&active, OP(RELOAD), 0, false);
	ck_assert_uint_eq(active.n_answers, 0);
	three_hold(false);
	ck_assert_int_eq(three_state_of(&active, 1), ID_ROUTE_RESOLVED);
	fake_estrange_qp(wire.core->fabric, 17);
	control_reloaded(server_get_control(wire.server), false, 1, 0, NULL, NULL);
	three_run();
	ck_assert_uint_eq(active.n_answers, 1);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_CONNECT), 0);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_QP_BELONGS), 2);
	ck_assert_uint_eq(active.n_errors, 1);
	ck_assert_int_eq(active.event_status, -EPERM);
	fake_estrange_qp(wire.core->fabric, 0);
}
END_TEST

START_TEST(the_device_is_removed_meanwhile)
{
	three_send(&active, OP(CONNECT), 1, true);
	fake_remove_device(wire.core->fabric, "fake0");
	three_run();
	three_hold(false);
	ck_assert_int_eq(three_state_of(&active, 1), ID_REMOVED);
	ck_assert_uint_eq(active.n_errors, 1);
	three_ask(&active, OP(LIST_DEVICES), 0);
	fake_add_device(wire.core->fabric, "fake0");
}
END_TEST

START_TEST(the_client_ends_meanwhile)
{
	three_send(&active, OP(CONNECT), 1, true);
	three_send(&active, OP(CONNECT), 2, true);
	three_send(&active, OP(DISCONNECT), 2, false);
	wire_close(&active);
	three_run();
	ck_assert_uint_eq(wire.core->n_sessions, 2);
	three_hold(false);
}
END_TEST

/* At the limit, the next one waits, and so do all behind it. */
START_TEST(many)
{
	three_hold(false);
	for (uint32_t id = 3; id <= IDS; id++)
		three_resolve(id);
	three_hold(true);
	for (uint32_t id = 1; id <= IDS; id++)
		three_send(&active, OP(CONNECT), id, true);
	three_send(&active, OP(LIST_DEVICES), 0, false);
	ck_assert_uint_eq(active.n_answers, 0);
	three_hold(false);
	ck_assert_uint_eq(active.n_answers, 1);
	for (uint32_t id = 1; id <= IDS; id++)
		ck_assert_int_eq(three_state_of(&active, id), ID_CONNECTING);
	ck_assert_uint_eq(active.n_errors, 0);
}
END_TEST

/* Who gets a reply for each request has none while another one waits. */
START_TEST(a_request_with_a_reply_waits)
{
	uint8_t buf[PACKET_MAX];

	three_send(&active, OP(CONNECT), 1, false);
	wire_send(&active, buf, wire_make(&active, OP(LIST_DEVICES), 0, buf), NULL);
	three_run();
	ck_assert_uint_eq(active.n_answers, 0);
	three_hold(false);
	ck_assert_uint_eq(active.n_answers, 1);
}
END_TEST

UNIT_MAIN("aside", set_up, three_end, requests_about_others_go_on, an_accept_is_set_aside,
	  requests_about_the_same_wait, a_destroy_waits, a_release_waits,
	  a_foreign_qp_is_refused_by_an_event, policy_decides_when_it_goes_on,
	  the_id_is_imported_meanwhile, an_answer_does_not_outlive_a_wait,
	  the_device_is_removed_meanwhile, the_client_ends_meanwhile, many,
	  a_request_with_a_reply_waits)
