/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/three.h"
#include "tests/unit/unit.h"

struct wire_client passive, active, other;
static struct wire_client *const clients[] = { &passive, &active, &other };

void three_run(void)
{
	wire_run(clients, 3);
}

void three_ask(struct wire_client *c, int op, uint32_t id)
{
	wire_ask(c, op, id);
	three_run();
	ck_assert_int_eq(c->status, 0);
}

void three_send(struct wire_client *c, int op, uint32_t id, bool quiet)
{
	uint8_t buf[PACKET_MAX];
	size_t len = wire_make(c, op, id, buf);
	Rdmabroker__Frame *frame = rdmabroker__frame__unpack(NULL, len, buf);

	ck_assert_ptr_nonnull(frame);
	frame->request->quiet = quiet;
	c->n_answers = 0;
	wire_send(c, buf, rdmabroker__frame__pack(frame, buf), NULL);
	rdmabroker__frame__free_unpacked(frame, NULL);
	three_run();
}

void three_listen(void)
{
	/* The fields of an address, 10.9.0.1 port 7471. They replace earlier fields of the same number. */
	static const uint8_t addr[] = "\x12\x09\x0a\x04\x0a\x09\x00\x01\x10\xaf\x3a";
	uint8_t buf[PACKET_MAX];

	three_ask(&passive, OP(CREATE_ID), 1);
	wire_send(&passive, buf,
		  request_make(++passive.serial, OP(BIND_ADDR), 1, addr, sizeof(addr) - 1, buf),
		  NULL);
	three_run();
	ck_assert_int_eq(passive.status, 0);
	three_ask(&passive, OP(LISTEN), 1);
}

void three_resolve(uint32_t id)
{
	three_ask(&active, OP(CREATE_ID), id);
	three_ask(&active, OP(RESOLVE_ADDR), id);
	three_ask(&active, OP(RESOLVE_ROUTE), id);
}

void three_hold(bool hold)
{
	fake_hold_lookups(wire.core->fabric, hold);
	three_run();
}

void three_start(void)
{
	wire_start("allow any\n");
	for (unsigned i = 0; i < 3; i++) {
		wire_connect(clients[i]);
		three_ask(clients[i], OP(HELLO), 0);
	}
	three_listen();
}

void three_end(void)
{
	fake_hold_lookups(wire.core->fabric, false);
	for (unsigned i = 0; i < 3; i++)
		if (clients[i]->sock >= 0)
			wire_close(clients[i]);
	three_run();
	wire_end();
}

enum id_state three_state_of(struct wire_client *c, uint32_t handle)
{
	struct failure why;
	struct id *id;

	ck_assert_int_eq(table_find(c->session, handle, &id, &why), 0);
	return id->state;
}
