/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/rule/enforce.h"
#include "proto/status.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"

/*
 * Sends each request of the protocol: about an id in each state, about ids that do not exist or belong to another
 * session, and before hello. Each request gets one reply. The table lists which states allow it.
 */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define IN(state) (1u << (state))

enum {
	NO_ID = _ID_STATE_MAX, /* no id has this handle */
	OTHERS_ID, /* the id belongs to another session */
	NO_HELLO, /* the client has not sent a hello */
	N_COLUMNS,
};

#define ALL_IDS (IN(_ID_STATE_MAX) - 1)
#define EMPTY (IN(ID_MOVED) | IN(ID_REVOKED))
/* all cases but NO_HELLO */
#define GREETED (ALL_IDS | IN(NO_ID) | IN(OTHERS_ID))
#define HAS_DEVICE (ALL_IDS & ~(EMPTY | IN(ID_IDLE) | IN(ID_REMOVED)))
#define MAY_END                                                               \
	(ALL_IDS & ~(EMPTY | IN(ID_IDLE) | IN(ID_BOUND) | IN(ID_ADDR_QUERY) | \
		     IN(ID_ADDR_RESOLVED) | IN(ID_ROUTE_QUERY) | IN(ID_ROUTE_RESOLVED)))

/* The states in which each request is carried out. */
static const unsigned allowed[REQUEST_LAST + 1] = {
	[OP(HELLO)] = IN(NO_HELLO),
	/* The handle must be free in the client's session. */
	[OP(CREATE_ID)] = IN(NO_ID) | IN(OTHERS_ID),
	[OP(DESTROY_ID)] = ALL_IDS,
	[OP(SET_OPTION)] = ALL_IDS & ~EMPTY,
	[OP(BIND_ADDR)] = IN(ID_IDLE),
	[OP(LISTEN)] = IN(ID_IDLE) | IN(ID_BOUND),
	[OP(RESOLVE_ADDR)] = IN(ID_IDLE) | IN(ID_BOUND),
	[OP(RESOLVE_ROUTE)] = IN(ID_ADDR_RESOLVED),
	[OP(CONNECT)] = IN(ID_ROUTE_RESOLVED),
	[OP(ACCEPT)] = IN(ID_REQUEST),
	[OP(ESTABLISH)] = IN(ID_RESPONDED),
	[OP(REJECT)] = IN(ID_REQUEST) | IN(ID_RESPONDED),
	[OP(DISCONNECT)] = MAY_END,
	[OP(INIT_QP_ATTR)] = ALL_IDS & ~EMPTY,
	[OP(OPEN_DEVICE)] = GREETED & ~IN(ID_REMOVED),
	[OP(CLOSE_DEVICE)] = GREETED,
	[OP(GET_STATUS)] = GREETED,
	[OP(GET_OPTION)] = ALL_IDS,
	[OP(NOTIFY)] = ALL_IDS & ~EMPTY,
	[OP(JOIN_MULTICAST)] = HAS_DEVICE,
	[OP(LEAVE_MULTICAST)] = 0, /* no group was joined */
	[OP(GET_LIMITS)] = GREETED,
	[OP(EXPORT_ID)] = ALL_IDS & ~(EMPTY | IN(ID_REMOVED)),
	[OP(IMPORT_ID)] = 0, /* there is no descriptor */
	[OP(LIST_DEVICES)] = GREETED,
	[OP(EXPLAIN)] = GREETED,
	[OP(RELOAD)] = GREETED,
	[OP(TRY_RELOAD)] = GREETED,
	[OP(GET_REFUSALS)] = GREETED,
	[OP(CLEAR_REFUSALS)] = GREETED,
	[OP(GET_SIGHTINGS)] = GREETED,
	[OP(LIST_RULES)] = GREETED,
	[OP(LIST)] = GREETED,
	[OP(KICK)] = 0, /* no session has that number */
	[OP(DRAIN)] = GREETED,
	[OP(GET_METRICS)] = GREETED,
	[OP(WATCH)] = GREETED,
	[OP(RESTRICT_SESSION)] = IN(NO_ID) | IN(OTHERS_ID), /* the session must have no ids */
	[OP(PUBLISH_SOCKET)] = 0, /* the session has no restriction */
	[OP(RELEASE_SESSION)] = 0, /* the same */
	[OP(ADOPT_SESSION)] = 0, /* the session was not released */
	[OP(SERVE_PEERS)] = GREETED,
	[OP(ANSWER_PEER)] = 0, /* nothing was asked */
	[OP(FIND_PEER)] = 0, /* nobody has the address */
	[OP(GOODBYE)] = GREETED,
	[OP(WAKE)] = 0, /* replies come by the session's own socket */
	[OP(LEND_DEVICE)] = GREETED & ~IN(ID_REMOVED), /* a removed device cannot be lent */
};

static struct wire_client server, client, other;
static struct wire_client *const clients[] = { &server, &client, &other };

static void run(void)
{
	wire_run(clients, 3);
}

static void hold(bool hold)
{
	fake_hold_events(wire.core->fabric, hold);
	run();
}

static void do_(struct wire_client *c, int op, uint32_t id)
{
	wire_ask(c, op, id);
	ck_assert_msg(c->n_answers == 1 && c->status == 0, "%s: %d answers, status %d",
		      request_name(op), c->n_answers, c->status);
	run();
}

static void bind_to(struct wire_client *c, uint32_t id, uint16_t port)
{
	/* EXTRA is a second address, with PORT. The last of several fields with the same number counts. */
	const uint8_t extra[] = {
		2 << 3 | 2,           4, 2 << 3, (uint8_t)(port | 128), (uint8_t)(port >> 7 | 128),
		(uint8_t)(port >> 14)
	};
	uint8_t buf[PACKET_MAX];

	wire_send(c, buf, request_make(++c->serial, OP(BIND_ADDR), id, extra, sizeof(extra), buf),
		  NULL);
	run();
	ck_assert_int_eq(c->status, 0);
}

static void make_listener(void)
{
	do_(&server, OP(CREATE_ID), 1);
	bind_to(&server, 1, 7471);
	do_(&server, OP(LISTEN), 1);
}

static void resolve(enum id_state until)
{
	do_(&client, OP(CREATE_ID), 1);
	hold(until == ID_ADDR_QUERY);
	do_(&client, OP(RESOLVE_ADDR), 1);
	if (until == ID_ADDR_QUERY || until == ID_ADDR_RESOLVED)
		return;
	hold(until == ID_ROUTE_QUERY);
	do_(&client, OP(RESOLVE_ROUTE), 1);
}

static void connect_until(enum id_state until)
{
	make_listener();
	resolve(ID_ROUTE_RESOLVED);
	hold(until == ID_CONNECTING);
	do_(&client, OP(CONNECT), 1);
	if (until == ID_CONNECTING || until == ID_REQUEST)
		return;
	if (until == ID_FAILED) {
		do_(&server, OP(REJECT), server.request);
		return;
	}
	do_(&server, OP(ACCEPT), server.request);
	if (until == ID_RESPONDED || until == ID_ACCEPTED)
		return;
	do_(&client, OP(ESTABLISH), 1);
	if (until == ID_ESTABLISHED)
		return;
	hold(until == ID_DISCONNECTING);
	do_(&client, OP(DISCONNECT), 1);
}

/* Brings an id into STATE. Returns the client that owns the id, and the id's handle in RET. */
static struct wire_client *reach(unsigned state, uint32_t *ret)
{
	*ret = 1;
	switch (state) {
	case ID_IDLE:
		do_(&client, OP(CREATE_ID), 1);
		return &client;
	case ID_BOUND:
		do_(&client, OP(CREATE_ID), 1);
		do_(&client, OP(BIND_ADDR), 1);
		return &client;
	case ID_LISTENING:
		make_listener();
		return &server;
	case ID_ADDR_QUERY:
	case ID_ADDR_RESOLVED:
	case ID_ROUTE_QUERY:
	case ID_ROUTE_RESOLVED:
		resolve(state);
		return &client;
	case ID_REQUEST:
	case ID_ACCEPTED:
		connect_until(state);
		*ret = server.request;
		return &server;
	case ID_REMOVED:
		do_(&client, OP(CREATE_ID), 1);
		do_(&client, OP(BIND_ADDR), 1);
		fake_remove_device(wire.core->fabric, "fake0");
		run();
		return &client;
	case ID_MOVED:
		do_(&client, OP(CREATE_ID), 1);
		do_(&client, OP(EXPORT_ID), 1);
		other.fd = client.fd;
		client.fd = -1;
		do_(&other, OP(IMPORT_ID), 0);
		close(other.fd);
		other.fd = -1;
		return &client;
	case ID_REVOKED:
		make_listener();
		wire_set_policy("allow session\nallow device\nallow connect\n");
		enforce_start(wire.core);
		wire_set_policy("allow any\n");
		run();
		return &server;
	case NO_ID:
	case NO_HELLO:
		return &client;
	case OTHERS_ID:
		make_listener();
		return &client;
	default:
		connect_until(state);
		return &client;
	}
}

static enum id_state state_of(struct wire_client *c, uint32_t handle)
{
	struct failure why;
	struct id *id;

	ck_assert_int_eq(table_find(c->session, handle, &id, &why), 0);
	return id->state;
}

/* The clients connect where OP is permitted. */
static void set_up(unsigned column, int op)
{
	bool of_helper = op == OP(SERVE_PEERS) || op == OP(ANSWER_PEER) || op == OP(FIND_PEER);

	wire_start("allow any\n");
	wire.door = of_helper ? DOOR_HELPER : DOOR_ADMIN;
	for (int i = 0; i < 3; i++) {
		wire_connect(clients[i]);
		if (column != NO_HELLO)
			do_(clients[i], OP(HELLO), 0);
	}
}

static void tear_down(void)
{
	for (int i = 0; i < 3; i++)
		wire_close(clients[i]);
	run();
	wire_end();
}

static const char *column_name(unsigned column)
{
	switch (column) {
	case NO_ID:
		return "no id";
	case OTHERS_ID:
		return "another session's id";
	case NO_HELLO:
		return "before hello";
	default:
		return id_state_to_string(column);
	}
}

static unsigned n_cells, n_carried_out;

static void check_cell(int op, unsigned column)
{
	bool expected = allowed[op] & IN(column);
	struct wire_client *c;
	uint32_t id;

	set_up(column, op);
	c = reach(column, &id);
	if (column < _ID_STATE_MAX)
		ck_assert_int_eq(state_of(c, id), column);
	wire_ask(c, op, id);
	ck_assert_msg(c->n_answers == 1, "%s, %s: %u answers", request_name(op),
		      column_name(column), c->n_answers);
	ck_assert_msg((c->status == 0) == expected, "%s, %s: status %d, errno %d", request_name(op),
		      column_name(column), c->status, c->error);
	/* A refusal changes no state. Before hello, it ends the connection. */
	if (column < _ID_STATE_MAX && c->status != 0)
		ck_assert_int_eq(state_of(c, id), column);
	run();
	ck_assert_int_eq(c->dropped, column == NO_HELLO && !expected);
	n_cells++;
	n_carried_out += c->status == 0;
	hold(false);
	tear_down();
}

START_TEST(every_request_in_every_state)
{
	for (int op = REQUEST_FIRST; op <= REQUEST_LAST; op++)
		for (unsigned column = 0; column < N_COLUMNS; column++)
			check_cell(op, column);
	printf("%u requests in %u states: %u answered, %u of them carried out\n",
	       REQUEST_LAST - REQUEST_FIRST + 1, N_COLUMNS, n_cells, n_carried_out);
}
END_TEST

/* Sends the request with the field "first": the broker creates the id FIRST_ID, and then processes the request. */
static void ask_with_first(struct wire_client *c, int op, uint32_t id, uint32_t first_id)
{
	Rdmabroker__CreateId first = RDMABROKER__CREATE_ID__INIT;
	uint8_t buf[PACKET_MAX];
	Rdmabroker__Frame *frame = rdmabroker__frame__unpack(
		NULL, request_make(++c->serial, op, id, NULL, 0, buf), buf);

	first.port_space = RDMA_PS_TCP;
	first.id = first_id;
	frame->request->first = &first;
	wire_send(c, buf, rdmabroker__frame__pack(frame, buf), NULL);
	frame->request->first = NULL;
	rdmabroker__frame__free_unpacked(frame, NULL);
	run();
	ck_assert_msg(c->n_answers == 1, "%s: %u answers", request_name(op), c->n_answers);
}

static bool is_about_no_id(int op)
{
	return op == OP(HELLO) || op == OP(CREATE_ID) || op == OP(GET_STATUS) ||
	       (op >= OP(EXPLAIN) && op <= OP(WATCH)) || op == OP(LEND_DEVICE) ||
	       op == OP(SERVE_PEERS) || op == OP(GET_LIMITS) || op == OP(TRY_RELOAD) ||
	       op == OP(GET_REFUSALS) || op == OP(CLEAR_REFUSALS) || op == OP(GET_SIGHTINGS);
}

START_TEST(with_the_id_made_first)
{
	unsigned n_done = 0;
	struct failure why;
	struct id *made;

	for (int op = REQUEST_FIRST; op <= REQUEST_LAST; op++) {
		bool expected = (allowed[op] & IN(ID_IDLE)) && !is_about_no_id(op);

		set_up(NO_ID, op);
		ask_with_first(&client, op, 1, 1);
		ck_assert_msg((client.status == 0) == expected, "%s: status %d, errno %d",
			      request_name(op), client.status, client.error);
		/* Either both steps succeed, or none has an effect. */
		ck_assert_int_eq(table_find(client.session, 1, &made, &why) == 0,
				 expected && op != OP(DESTROY_ID));
		n_done += expected;
		tear_down();

		/* If the id exists already, it is not changed. */
		set_up(ID_BOUND, op);
		reach(ID_BOUND, &(uint32_t){ 0 });
		ask_with_first(&client, op, 1, 1);
		ck_assert_int_ne(client.status, 0);
		ck_assert_int_eq(state_of(&client, 1), ID_BOUND);
		ck_assert_uint_eq(wire.core->n_ids, 1);
		tear_down();
	}
	ck_assert_uint_ge(n_done, 10);
}
END_TEST

/* The id that is created first is not the request's. Either both steps are carried out, or neither. */
START_TEST(with_another_id_made_first)
{
	for (int op = REQUEST_FIRST; op <= REQUEST_LAST; op++) {
		struct failure why;
		struct id *made;
		bool expected;

		set_up(ID_IDLE, OP(HELLO));
		reach(ID_IDLE, &(uint32_t){ 0 });
		ask_with_first(&client, op, 1, 2);
		expected = (allowed[op] & IN(ID_IDLE)) && !is_about_no_id(op);
		ck_assert_msg((client.status == 0) == expected, "%s: status %d, errno %d",
			      request_name(op), client.status, client.error);
		ck_assert_int_eq(table_find(client.session, 2, &made, &why) == 0, expected);
		if (expected) {
			do_(&client, OP(SET_OPTION), 2);
			bind_to(&client, 2, 7499);
			do_(&client, OP(LISTEN), 2);
		}
		tear_down();
	}
}
END_TEST

UNIT_MAIN("states", NULL, NULL, every_request_in_every_state, with_the_id_made_first,
	  with_another_id_made_first)
