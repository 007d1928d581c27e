/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

#include "proto/rdmabroker.pb-c.h"
#include "tests/wire/requests.h"

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define DEPTH_MAX 3

const char *request_name(int op)
{
	return protobuf_c_message_descriptor_get_field(&rdmabroker__request__descriptor,
						       (unsigned)op)
		->name;
}

struct writer {
	uint8_t *buf;
	size_t n;
};

static void put_varint(struct writer *w, uint64_t value)
{
	for (; value >= 128; value >>= 7)
		w->buf[w->n++] = (uint8_t)value | 128;
	w->buf[w->n++] = (uint8_t)value;
}

static void put_number(struct writer *w, unsigned field, uint64_t value)
{
	put_varint(w, field << 3);
	put_varint(w, value);
}

static void put_bytes(struct writer *w, unsigned field, const void *data, size_t n)
{
	put_varint(w, field << 3 | 2);
	put_varint(w, n);
	memcpy(w->buf + w->n, data, n);
	w->n += n;
}

static void put_address(struct writer *w, unsigned field, const char *host, uint32_t port)
{
	struct writer inner = { (uint8_t[32]){ 0 }, 0 };

	put_bytes(&inner, 1, host, 4);
	put_number(&inner, 2, port);
	put_bytes(w, field, inner.buf, inner.n);
}

#define HOST "\x0a\x09\x00\x01"
#define GROUP "\xef\x01\x02\x03"

static void put_param(struct writer *w, unsigned field)
{
	struct writer inner = { (uint8_t[32]){ 0 }, 0 };

	put_bytes(&inner, 1, "hi", 2);
	put_number(&inner, 8, 17);
	put_bytes(w, field, inner.buf, inner.n);
}

static void put_operation(struct writer *w, int op, uint32_t id)
{
	switch (op) {
	case OP(HELLO):
		put_number(w, 1, 1);
		return;
	case OP(CREATE_ID):
		put_number(w, 1, RDMA_PS_TCP);
		put_number(w, 2, id);
		return;
	case OP(OPEN_DEVICE):
	case OP(CLOSE_DEVICE):
		put_bytes(w, 1, "fake0", 5);
		return;
	case OP(EXPLAIN):
		put_bytes(w, 1, "connect", 7);
		return;
	case OP(GET_STATUS):
	case OP(GET_LIMITS):
	case OP(IMPORT_ID):
	case OP(LIST_DEVICES):
	case OP(RELOAD):
	case OP(TRY_RELOAD):
	case OP(GET_REFUSALS):
	case OP(CLEAR_REFUSALS):
	case OP(GET_SIGHTINGS):
	case OP(LIST_RULES):
	case OP(GET_METRICS):
	case OP(PUBLISH_SOCKET):
	case OP(RELEASE_SESSION):
	case OP(ADOPT_SESSION):
	case OP(GOODBYE):
	case OP(WAKE):
		return;
	case OP(RESTRICT_SESSION):
		put_bytes(w, 1, "allow any port 7471", 19);
		put_number(w, 2, 3);
		return;
	case OP(SERVE_PEERS):
		return;
	case OP(ANSWER_PEER):
		put_number(w, 1, 4711);
		put_bytes(w, 3, "gone", 4);
		return;
	case OP(FIND_PEER):
		put_number(w, 1, 1);
		put_number(w, 2, RDMA_PS_TCP);
		put_address(w, 3, HOST, 7471);
		return;
	case OP(LEND_DEVICE):
		put_bytes(w, 1, "fake0", 5);
		put_number(w, 2, 4242);
		return;
	case OP(LIST):
		put_number(w, 1, 1);
		return;
	case OP(KICK):
		put_number(w, 1, 4711);
		return;
	case OP(DRAIN):
		put_number(w, 1, 0);
		return;
	case OP(WATCH):
		put_bytes(w, 1, "cm", 2);
		put_number(w, 8, 7471);
		return;
	}
	/* All other requests have an id as their first field. */
	put_number(w, 1, id);
	switch (op) {
	case OP(SET_OPTION):
		put_number(w, 3, 5);
		break;
	case OP(BIND_ADDR):
		put_address(w, 2, HOST, 0);
		break;
	case OP(RESOLVE_ADDR):
		put_address(w, 3, HOST, 7471);
		put_number(w, 4, 1000);
		break;
	case OP(RESOLVE_ROUTE):
		put_number(w, 2, 1000);
		break;
	case OP(CONNECT):
	case OP(ACCEPT):
		put_param(w, 2);
		break;
	case OP(INIT_QP_ATTR):
		put_number(w, 2, IBV_QPS_INIT);
		break;
	case OP(NOTIFY):
		put_number(w, 2, IBV_EVENT_COMM_EST);
		break;
	case OP(JOIN_MULTICAST):
		put_number(w, 3, 1);
		put_address(w, 2, GROUP, 0);
		break;
	case OP(LEAVE_MULTICAST):
		put_address(w, 2, GROUP, 0);
		break;
	}
}

size_t request_make(uint32_t serial, int op, uint32_t id, const uint8_t *extra, size_t extra_len,
		    uint8_t buf[PACKET_MAX])
{
	static uint8_t operation[2 * PACKET_MAX], request[2 * PACKET_MAX], frame[2 * PACKET_MAX];
	struct writer o = { operation, 0 }, r = { request, 0 }, f = { frame, 0 };

	put_operation(&o, op, id);
	if (extra_len > 0)
		memcpy(o.buf + o.n, extra, extra_len);
	o.n += extra_len;
	put_number(&r, 1, serial);
	put_bytes(&r, (unsigned)op, o.buf, o.n);
	put_bytes(&f, 1, r.buf, r.n);
	assert(f.n <= PACKET_MAX);
	memcpy(buf, f.buf, f.n);
	return f.n;
}

void request_each_cut(const struct request_trial *trial)
{
	uint8_t buf[PACKET_MAX];

	for (int op = REQUEST_FIRST; op <= REQUEST_LAST; op++) {
		size_t n = request_make(*trial->serial, op, 1, NULL, 0, buf);

		for (size_t len = 1; len < n; len++) {
			request_make(++*trial->serial, op, 1, NULL, 0, buf);
			trial->try(trial->userdata, buf, len, request_name(op));
		}
	}
}

/*
 * The path to a field in nested messages. If a nested message occurs twice, its fields are merged, and later values
 * win.
 */

struct way {
	const struct request_trial *trial;
	int op;
	unsigned fields[DEPTH_MAX];
	int depth;
};

static size_t varint(uint8_t *buf, uint64_t value)
{
	size_t n = 0;

	for (; value >= 128; value >>= 7)
		buf[n++] = (uint8_t)value | 128;
	buf[n++] = (uint8_t)value;
	return n;
}

/* Wraps the bytes in BUF in each message on the path, innermost first. */
static size_t wrap(const struct way *way, uint8_t *buf, size_t n)
{
	static uint8_t copy[PACKET_MAX];

	for (int i = way->depth - 2; i >= 0; i--) {
		size_t m;

		memcpy(copy, buf, n);
		m = varint(buf, way->fields[i] << 3 | 2);
		m += varint(buf + m, n);
		memcpy(buf + m, copy, n);
		n += m;
	}
	return n;
}

static void try_field(const struct way *way, uint8_t *extra, size_t n, const char *name)
{
	const struct request_trial *trial = way->trial;
	uint8_t buf[PACKET_MAX];
	char what[128];

	n = wrap(way, extra, n);
	snprintf(what, sizeof(what), "%s.%s", request_name(way->op), name);
	n = request_make(++*trial->serial, way->op, 1, extra, n, buf);
	trial->try(trial->userdata, buf, n, what);
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
		size_t n = varint(extra, way->fields[way->depth - 1] << 3);

		n += varint(extra + n, values[i]);
		try_field(way, extra, n, name);
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
			size_t n = varint(extra, way->fields[way->depth - 1] << 3 | 2);

			n += varint(extra + n, lengths[i]);
			memset(extra + n, contents[k], lengths[i]);
			try_field(way, extra, n + lengths[i], name);
		}
}

/* Wire types 3 and 4 are groups, 6 and 7 are not defined. */
static void try_wire_types(const struct way *way, const char *name)
{
	for (unsigned type = 0; type < 8; type++) {
		uint8_t extra[64];
		size_t n = varint(extra, way->fields[way->depth - 1] << 3 | type);

		memset(extra + n, 1, 8);
		try_field(way, extra, n + 8, name);
		try_field(way, extra, n, name);
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

void request_each_field(const struct request_trial *trial)
{
	for (int op = REQUEST_FIRST; op <= REQUEST_LAST; op++) {
		const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
			&rdmabroker__request__descriptor, (unsigned)op);
		struct way way = { .trial = trial, .op = op };

		try_fields(&way, field->descriptor);
	}
}
