/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <unistd.h>

#include "rpc/peer.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"

/* A quiet connect or accept whose QP is looked up is set aside: only requests about the same id wait for it. */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define IDS 40 /* more than can be set aside */

static struct wire_client server, client, other;
static struct wire_client *const clients[] = { &server, &client, &other };

static void run(void)
{
	wire_run(clients, 3);
}

static void ask(struct wire_client *c, int op, uint32_t id)
{
	wire_ask(c, op, id);
	run();
	ck_assert_int_eq(c->status, 0);
}

/* Sends a request without waiting for the reply. */
static void send_only(struct wire_client *c, int op, uint32_t id)
{
	uint8_t buf[PACKET_MAX];

	c->n_answers = 0;
	wire_send(c, buf, wire_make(c, op, id, buf), NULL);
	run();
}

static void send_quiet(struct wire_client *c, int op, uint32_t id)
{
	uint8_t buf[PACKET_MAX];
	Rdmabroker__Frame *frame = rdmabroker__frame__unpack(NULL, wire_make(c, op, id, buf), buf);

	ck_assert_ptr_nonnull(frame);
	frame->request->quiet = true;
	wire_send(c, buf, rdmabroker__frame__pack(frame, buf), NULL);
	rdmabroker__frame__free_unpacked(frame, NULL);
	run();
}

static void listen_on_7471(void)
{
	/* The fields of an address, 10.9.0.1 port 7471. They replace earlier fields of the same number. */
	static const uint8_t addr[] = "\x12\x09\x0a\x04\x0a\x09\x00\x01\x10\xaf\x3a";
	uint8_t buf[PACKET_MAX];

	ask(&server, OP(CREATE_ID), 1);
	wire_send(&server, buf,
		  request_make(++server.serial, OP(BIND_ADDR), 1, addr, sizeof(addr) - 1, buf),
		  NULL);
	run();
	ck_assert_int_eq(server.status, 0);
	ask(&server, OP(LISTEN), 1);
}

static void resolve(uint32_t id)
{
	ask(&client, OP(CREATE_ID), id);
	ask(&client, OP(RESOLVE_ADDR), id);
	ask(&client, OP(RESOLVE_ROUTE), id);
}

static void hold(bool hold)
{
	fake_hold_lookups(wire.core->fabric, hold);
	run();
}

static void set_up(void)
{
	wire_start("allow any\n");
	for (unsigned i = 0; i < 3; i++) {
		wire_connect(clients[i]);
		ask(clients[i], OP(HELLO), 0);
	}
	listen_on_7471();
	resolve(1);
	resolve(2);
	hold(true);
}

static void tear_down(void)
{
	fake_hold_lookups(wire.core->fabric, false);
	for (unsigned i = 0; i < 3; i++)
		if (clients[i]->sock >= 0)
			wire_close(clients[i]);
	run();
	wire_end();
}

static enum id_state state_of(struct wire_client *c, uint32_t handle)
{
	struct failure why;
	struct id *id;

	ck_assert_int_eq(table_find(c->session, handle, &id, &why), 0);
	return id->state;
}

START_TEST(requests_about_others_go_on)
{
	send_quiet(&client, OP(CONNECT), 1);
	ck_assert_int_eq(state_of(&client, 1), ID_ROUTE_RESOLVED);
	ask(&client, OP(LIST_DEVICES), 0);
	ask(&client, OP(CREATE_ID), 3);
	ask(&client, OP(DESTROY_ID), 3);
	send_quiet(&client, OP(CONNECT), 2);
	ask(&client, OP(LIST_DEVICES), 0);
	hold(false);
	ck_assert_int_eq(state_of(&client, 1), ID_CONNECTING);
	ck_assert_int_eq(state_of(&client, 2), ID_CONNECTING);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_QP_BELONGS), 2);
	ck_assert_uint_eq(client.n_errors, 0);
}
END_TEST

START_TEST(an_accept_is_set_aside)
{
	hold(false);
	ask(&client, OP(CONNECT), 1);
	hold(true);
	send_quiet(&server, OP(ACCEPT), server.request);
	ck_assert_int_eq(state_of(&server, server.request), ID_REQUEST);
	ask(&server, OP(LIST_DEVICES), 0);
	hold(false);
	ck_assert_int_eq(state_of(&server, server.request), ID_ACCEPTED);
}
END_TEST

/* What the client requests of the same id comes after the connect. */
START_TEST(requests_about_the_same_wait)
{
	send_quiet(&client, OP(CONNECT), 1);
	send_only(&client, OP(DISCONNECT), 1);
	ck_assert_uint_eq(client.n_answers, 0);
	hold(false);
	ck_assert_uint_eq(client.n_answers, 1);
	ck_assert_int_eq(client.status, 0);
	ck_assert_int_eq(state_of(&client, 1), ID_DISCONNECTING);
	ask(&client, OP(LIST_DEVICES), 0);
}
END_TEST

START_TEST(a_destroy_waits)
{
	send_quiet(&client, OP(CONNECT), 1);
	send_only(&client, OP(DESTROY_ID), 1);
	ck_assert_uint_eq(client.n_answers, 0);
	hold(false);
	ck_assert_uint_eq(client.n_answers, 1);
	ck_assert_int_eq(client.status, 0);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_CONNECT), 1);
}
END_TEST

/* The session ends with its last request. */
START_TEST(a_release_waits)
{
	send_quiet(&client, OP(CONNECT), 1);
	send_only(&client, OP(RELEASE_SESSION), 0);
	ck_assert_uint_eq(client.n_answers, 0);
	hold(false);
	ck_assert_uint_eq(client.n_answers, 1);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_CONNECT), 1);
}
END_TEST

/* By then the client can have got the reply to a later request, so a refusal is an event, and is counted as one. */
START_TEST(a_foreign_qp_is_refused_by_an_event)
{
	uint64_t n = wire.core->metrics.refusals[STATUS_NOT_OWNER];

	fake_estrange_qp(wire.core->fabric, 17);
	send_quiet(&client, OP(CONNECT), 1);
	ask(&client, OP(LIST_DEVICES), 0);
	hold(false);
	ck_assert_uint_eq(client.n_errors, 1);
	ck_assert_int_eq(client.event_status, -EPERM);
	ck_assert_int_eq(state_of(&client, 1), ID_ROUTE_RESOLVED);
	ck_assert_uint_eq(wire.core->metrics.refusals[STATUS_NOT_OWNER], n + 1);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_CONNECT), 0);
	/* It can connect again, with another QP. */
	fake_estrange_qp(wire.core->fabric, 0);
	ask(&client, OP(CONNECT), 1);
	ck_assert_int_eq(state_of(&client, 1), ID_CONNECTING);
}
END_TEST

START_TEST(policy_decides_when_it_goes_on)
{
	send_quiet(&client, OP(CONNECT), 1);
	wire_set_policy("allow session\nallow device\nallow listen\n");
	hold(false);
	ck_assert_uint_eq(client.n_errors, 1);
	ck_assert_int_eq(client.event_status, -EACCES);
	ck_assert_int_eq(state_of(&client, 1), ID_ROUTE_RESOLVED);
}
END_TEST

/* The process behind the session is another one, so its QP would have to be looked up; the client has no such id any more. */
START_TEST(the_id_is_imported_meanwhile)
{
	uint8_t buf[PACKET_MAX];

	ask(&client, OP(EXPORT_ID), 1);
	ck_assert_int_ge(client.fd, 0);
	send_quiet(&client, OP(CONNECT), 1);
	wire_send(&other, buf, wire_make(&other, OP(IMPORT_ID), 0, buf), &client.fd);
	run();
	ck_assert_int_eq(other.status, 0);
	ck_assert_int_eq(state_of(&client, 1), ID_MOVED);
	ck_assert_uint_eq(client.n_errors, 0);
	hold(false);
	ask(&client, OP(DESTROY_ID), 1);
	ck_assert_uint_eq(fake_count(wire.core->fabric, FAKE_CONNECT), 0);
}
END_TEST

START_TEST(the_device_is_removed_meanwhile)
{
	send_quiet(&client, OP(CONNECT), 1);
	fake_remove_device(wire.core->fabric, "fake0");
	run();
	hold(false);
	ck_assert_int_eq(state_of(&client, 1), ID_REMOVED);
	ck_assert_uint_eq(client.n_errors, 1);
	ask(&client, OP(LIST_DEVICES), 0);
	fake_add_device(wire.core->fabric, "fake0");
}
END_TEST

START_TEST(the_client_ends_meanwhile)
{
	send_quiet(&client, OP(CONNECT), 1);
	send_quiet(&client, OP(CONNECT), 2);
	send_only(&client, OP(DISCONNECT), 2);
	wire_close(&client);
	run();
	ck_assert_uint_eq(wire.core->n_sessions, 2);
	hold(false);
}
END_TEST

/* At the limit, the next one waits, and so do all behind it. */
START_TEST(many)
{
	hold(false);
	for (uint32_t id = 3; id <= IDS; id++)
		resolve(id);
	hold(true);
	for (uint32_t id = 1; id <= IDS; id++)
		send_quiet(&client, OP(CONNECT), id);
	send_only(&client, OP(LIST_DEVICES), 0);
	ck_assert_uint_eq(client.n_answers, 0);
	hold(false);
	ck_assert_uint_eq(client.n_answers, 1);
	for (uint32_t id = 1; id <= IDS; id++)
		ck_assert_int_eq(state_of(&client, id), ID_CONNECTING);
	ck_assert_uint_eq(client.n_errors, 0);
}
END_TEST

/* Who gets a reply for each request has none while another one waits. */
START_TEST(a_request_with_a_reply_waits)
{
	uint8_t buf[PACKET_MAX];

	send_only(&client, OP(CONNECT), 1);
	wire_send(&client, buf, wire_make(&client, OP(LIST_DEVICES), 0, buf), NULL);
	run();
	ck_assert_uint_eq(client.n_answers, 0);
	hold(false);
	ck_assert_uint_eq(client.n_answers, 1);
}
END_TEST

UNIT_MAIN("aside", set_up, tear_down, requests_about_others_go_on, an_accept_is_set_aside,
	  requests_about_the_same_wait, a_destroy_waits, a_release_waits,
	  a_foreign_qp_is_refused_by_an_event, policy_decides_when_it_goes_on,
	  the_id_is_imported_meanwhile, the_device_is_removed_meanwhile, the_client_ends_meanwhile,
	  many, a_request_with_a_reply_waits)
