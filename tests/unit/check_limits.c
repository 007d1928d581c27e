/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/wire.h"

/*
 * Every message cut at every length, and every field of every request with values at its limits, past
 * them, and of another wire type. The client is answered, or dropped where its packet is none; the daemon
 * goes on, and who sits beside notices nothing.
 */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define DEPTH_MAX 3

static struct wire_client client, witness;
static struct wire_client *const clients[] = { &client, &witness };
static unsigned n_sent, n_answered, n_refused, n_dropped;

static void set_up(void)
{
	n_sent = n_answered = n_refused = n_dropped = 0;
	wire_start("allow any\n");
	wire_connect(&witness);
	wire_ask(&witness, OP(HELLO), 0);
	wire_ask(&witness, OP(CREATE_ID), 1);
	ck_assert_int_eq(witness.status, 0);
	client.sock = -1;
}

static void tear_down(void)
{
	if (client.sock >= 0)
		wire_close(&client);
	wire_close(&witness);
	wire_run(clients, 0);
	wire_end();
}

/* One that said hello and has an id. */
static void renew_client(void)
{
	if (client.sock >= 0)
		wire_close(&client);
	wire_run(clients, 0);
	wire_connect(&client);
	wire_ask(&client, OP(HELLO), 0);
	wire_ask(&client, OP(CREATE_ID), 1);
	ck_assert_int_eq(client.status, 0);
}

/* BUF came from wire_make(), whole or in part. */
static void send_and_look(const uint8_t *buf, size_t n, const char *what)
{
	wire_send(&client, buf, n, NULL);
	wire_run(clients, 2);
	ck_assert_msg(client.n_answers <= 1, "%s: %u answers", what, client.n_answers);
	ck_assert_msg(client.dropped || client.n_answers == 1 || client.status > 0,
		      "%s: neither answered nor dropped", what);
	n_sent++;
	n_answered += client.n_answers;
	n_refused += client.n_answers > 0 && client.status > 0;
	n_dropped += client.dropped;
	if (n_sent % 16 == 0) {
		wire_ask(&witness, OP(LIST_DEVICES), 0);
		ck_assert_int_eq(witness.status, 0);
	}
	/* The id may be something else by now, or gone. */
	renew_client();
}

START_TEST(every_message_cut_at_every_length)
{
	uint8_t buf[PACKET_MAX];

	renew_client();
	for (int op = WIRE_FIRST_OP; op <= WIRE_LAST_OP; op++) {
		size_t n = wire_make(&client, op, 1, NULL, 0, buf);

		for (size_t len = 1; len < n; len++) {
			wire_make(&client, op, 1, NULL, 0, buf);
			send_and_look(buf, len, wire_op_name(op));
		}
	}
	printf("%u packets cut: %u answered, %u dropped\n", n_sent, n_answered, n_dropped);
	ck_assert_uint_gt(n_dropped, n_sent / 2);
}
END_TEST

/* Fields, by the way that leads to them: of a message in a message the last one wins, field by field. */

struct way {
	int op;
	unsigned fields[DEPTH_MAX];
	int depth;
};

static size_t put_varint(uint8_t *buf, uint64_t value)
{
	size_t n = 0;

	for (; value >= 128; value >>= 7)
		buf[n++] = (uint8_t)value | 128;
	buf[n++] = (uint8_t)value;
	return n;
}

/* What is in BUF becomes the field of each message on the way, from the innermost on. */
static size_t wrap(const struct way *way, uint8_t *buf, size_t n)
{
	static uint8_t copy[PACKET_MAX];

	for (int i = way->depth - 2; i >= 0; i--) {
		size_t m;

		memcpy(copy, buf, n);
		m = put_varint(buf, way->fields[i] << 3 | 2);
		m += put_varint(buf + m, n);
		memcpy(buf + m, copy, n);
		n += m;
	}
	return n;
}

static void send_field(const struct way *way, uint8_t *extra, size_t n, const char *name)
{
	uint8_t buf[PACKET_MAX];
	char what[128];

	n = wrap(way, extra, n);
	snprintf(what, sizeof(what), "%s.%s", wire_op_name(way->op), name);
	send_and_look(buf, wire_make(&client, way->op, 1, extra, n, buf), what);
}

static void try_numbers(const struct way *way, const char *name)
{
	static const uint64_t values[] = { 0,          1,          2,          7,
					   8,          127,        128,        255,
					   256,        524,        1024,       65535,
					   65536,      0xffffff,   0x1000000,  100,
					   0x7fffffff, 0x80000000, 0x80000001, 0xffffffff,
					   1ULL << 32, ~0ULL };
	uint8_t extra[64];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		size_t n = put_varint(extra, way->fields[way->depth - 1] << 3);

		n += put_varint(extra + n, values[i]);
		send_field(way, extra, n, name);
	}
}

static void try_bytes(const struct way *way, const char *name)
{
	static const size_t lengths[] = { 0,   1,   3,   4,   5,   15,   16,   17,  55,
					  56,  57,  63,  64,  135, 136,  137,  147, 148,
					  149, 179, 180, 181, 195, 196,  197,  254, 255,
					  256, 257, 511, 512, 513, 4096, 16000 };
	static const uint8_t contents[] = { 'x', 0, 0xff, '%', '\n' };
	static uint8_t extra[PACKET_MAX];

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (size_t k = 0; k < sizeof(contents); k++) {
			size_t n = put_varint(extra, way->fields[way->depth - 1] << 3 | 2);

			n += put_varint(extra + n, lengths[i]);
			memset(extra + n, contents[k], lengths[i]);
			send_field(way, extra, n + lengths[i], name);
		}
}

/* All eight, of which three do not exist. */
static void try_wire_types(const struct way *way, const char *name)
{
	for (unsigned type = 0; type < 8; type++) {
		uint8_t extra[64];
		size_t n = put_varint(extra, way->fields[way->depth - 1] << 3 | type);

		memset(extra + n, 1, 8);
		send_field(way, extra, n + 8, name);
		send_field(way, extra, n, name);
	}
}

static void try_fields(struct way *way, const ProtobufCMessageDescriptor *message)
{
	if (way->depth == DEPTH_MAX)
		return;
	for (unsigned i = 0; i < message->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->fields[i];

		way->fields[way->depth++] = field->id;
		try_wire_types(way, field->name);
		switch (field->type) {
		case PROTOBUF_C_TYPE_MESSAGE:
			try_bytes(way, field->name);
			try_fields(way, field->descriptor);
			break;
		case PROTOBUF_C_TYPE_STRING:
		case PROTOBUF_C_TYPE_BYTES:
			try_bytes(way, field->name);
			break;
		default:
			try_numbers(way, field->name);
		}
		way->depth--;
	}
}

START_TEST(every_field_at_its_limits)
{
	renew_client();
	for (int op = WIRE_FIRST_OP; op <= WIRE_LAST_OP; op++) {
		const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
			&rdmabroker__request__descriptor, (unsigned)op);
		struct way way = { .op = op };

		try_fields(&way, field->descriptor);
	}
	printf("%u requests with a field changed: %u answered, %u of them with a refusal; "
	       "%u dropped\n",
	       n_sent, n_answered, n_refused, n_dropped);
	ck_assert_uint_gt(n_answered, n_sent / 2);
}
END_TEST

UNIT_MAIN("limits", set_up, tear_down, every_message_cut_at_every_length, every_field_at_its_limits)
