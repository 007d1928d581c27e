/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "proto/codec.h"
#include "proto/packet.h"
#include "tests/unit/unit.h"

/*
 * The straight-line coders against protobuf-c, with random frames of the whole protocol and with damaged packets. The
 * environment variable CODEC_RUNS says how many.
 */

#define RUNS 200000
#define SPACE 65536
#define LONG 20000 /* longer than a packet */
#define DEPTH 6

/* An assertion of check makes a system call each time. */
#define MUST(condition)                           \
	do {                                      \
		if (!(condition))                 \
			ck_abort_msg(#condition); \
	} while (0)

static union {
	struct arena_block block;
	uint8_t bytes[sizeof(struct arena_block) + SPACE];
} memory[3];

static struct arena arenas[3];

static struct arena *get_arena(unsigned i)
{
	arena_init(&arenas[i], &memory[i].block, SPACE, /* more_max= */ 0);
	return &arenas[i];
}

static uint64_t state = 1;

static uint32_t any(uint32_t limit)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % limit;
}

/* Random messages, in memory of arena 0 */

static void *take(size_t size)
{
	void *ret = arena_take(&arenas[0], size ?: 1);

	MUST(ret);
	memset(ret, 0, size);
	return ret;
}

static ProtobufCMessage *any_message(const ProtobufCMessageDescriptor *descriptor, unsigned depth);

static uint64_t any_number(void)
{
	static const uint64_t edges[] = {
		0,         1,           0x7f,       0x80,         0x3fff,    0x4000,
		INT32_MAX, 0x80000000u, UINT32_MAX, 0x100000000u, INT64_MAX, UINT64_MAX
	};

	return any(2) ? any(300) : edges[any(sizeof(edges) / sizeof(edges[0]))];
}

static size_t any_length(void)
{
	return any(4) ? any(20) : any(300);
}

static void set_value(void *value, const ProtobufCFieldDescriptor *field, unsigned depth)
{
	uint64_t number = any_number();
	size_t n = any_length();
	char *text;

	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		*(protobuf_c_boolean *)value = (protobuf_c_boolean)any(2);
		return;
	case PROTOBUF_C_TYPE_STRING:
		text = take(n + 1);
		memset(text, 'a' + (int)any(26), n);
		*(char **)value = text;
		return;
	case PROTOBUF_C_TYPE_BYTES:
		text = take(n);
		for (size_t i = 0; i < n; i++)
			text[i] = (char)any(256);
		*(ProtobufCBinaryData *)value =
			(ProtobufCBinaryData){ .len = n, .data = (uint8_t *)text };
		return;
	case PROTOBUF_C_TYPE_MESSAGE:
		*(ProtobufCMessage **)value = any_message(field->descriptor, depth + 1);
		return;
	case PROTOBUF_C_TYPE_UINT64:
		memcpy(value, &number, 8);
		return;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_INT32:
		memcpy(value, &number, 4);
		return;
	default:
		ck_abort_msg("%s has a type that is not tested", field->name);
	}
}

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT64:
		return 8;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	default:
		return 4;
	}
}

static void set_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
		      unsigned depth)
{
	uint8_t *member = (uint8_t *)message + field->offset;
	size_t n = any(4), size = size_of(field);
	uint8_t *array;

	if (field->label != PROTOBUF_C_LABEL_REPEATED) {
		set_value(member, field, depth);
		return;
	}
	array = take(n * size);
	for (size_t i = 0; i < n; i++)
		set_value(array + i * size, field, depth);
	*(void **)(void *)member = array;
	*(size_t *)(void *)((uint8_t *)message + field->quantifier_offset) = n;
}

static bool is_oneof(const ProtobufCFieldDescriptor *field)
{
	return field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
}

static int *choice_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	return (int *)((uintptr_t)message + field->quantifier_offset);
}

/* Some of the fields are set, and at most one of each oneof. */
static ProtobufCMessage *any_message(const ProtobufCMessageDescriptor *descriptor, unsigned depth)
{
	ProtobufCMessage *message = take(descriptor->sizeof_message);
	unsigned share = 1 + any(4), first;

	protobuf_c_message_init(descriptor, message);
	if (depth > DEPTH || descriptor->n_fields == 0)
		return message;
	first = any(descriptor->n_fields);
	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field =
			&descriptor->fields[(first + i) % descriptor->n_fields];

		if (is_oneof(field)) {
			if (*choice_of(message, field))
				continue;
			*choice_of(message, field) = (int)field->id;
		} else if (any(4) >= share) {
			continue;
		}
		set_field(message, field, depth);
	}
	return message;
}

/* Comparison */

static bool is_same(const ProtobufCMessage *a, const ProtobufCMessage *b);

static bool is_same_value(const ProtobufCFieldDescriptor *field, const void *a, const void *b)
{
	const ProtobufCBinaryData *x = a, *y = b;

	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING:
		return strcmp(*(char *const *)a, *(char *const *)b) == 0;
	case PROTOBUF_C_TYPE_BYTES:
		return x->len == y->len && (x->len == 0 || memcmp(x->data, y->data, x->len) == 0);
	case PROTOBUF_C_TYPE_MESSAGE:
		return is_same(*(ProtobufCMessage *const *)a, *(ProtobufCMessage *const *)b);
	default:
		return memcmp(a, b, size_of(field)) == 0;
	}
}

static bool is_same_field(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *a,
			  const ProtobufCMessage *b)
{
	const uint8_t *x = (const uint8_t *)a + field->offset,
		      *y = (const uint8_t *)b + field->offset;
	const size_t *n = (const size_t *)((uintptr_t)a + field->quantifier_offset);

	if (field->label != PROTOBUF_C_LABEL_REPEATED)
		return is_same_value(field, x, y);
	if (*n != *(const size_t *)((uintptr_t)b + field->quantifier_offset))
		return false;
	for (size_t i = 0; i < *n; i++)
		if (!is_same_value(field, *(uint8_t *const *)(const void *)x + i * size_of(field),
				   *(uint8_t *const *)(const void *)y + i * size_of(field)))
			return false;
	return true;
}

static bool is_same(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
	if (!a || !b)
		return a == b;
	if (a->descriptor != b->descriptor || a->n_unknown_fields || b->n_unknown_fields)
		return false;
	for (unsigned i = 0; i < a->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &a->descriptor->fields[i];

		if (is_oneof(field)) {
			if (*choice_of(a, field) != *choice_of(b, field))
				return false;
			if (*choice_of(a, field) != (int)field->id)
				continue;
		}
		if (!is_same_field(field, a, b))
			return false;
	}
	return true;
}

static void print_packet(const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		fprintf(stderr, "%02x", data[i]);
	fprintf(stderr, "\n");
}

/* Whether the straight-line code has read the packet. What it reads, protobuf-c reads in the same way. */
static bool compare(const uint8_t *data, size_t len)
{
	const Rdmabroker__Frame *fast = codec_try_unpack(get_arena(1), data, len);
	const Rdmabroker__Frame *slow =
		rdmabroker__frame__unpack(&get_arena(2)->allocator, len, data);
	bool well = !fast || (slow && is_same(&fast->base, &slow->base));

	MUST(fast || memory[1].block.used == 0);
	if (!well)
		print_packet(data, len);
	MUST(well);
	return fast != NULL;
}

static size_t damage(uint8_t *data, size_t len)
{
	size_t at = any((uint32_t)len), n = 1 + any(8);

	switch (any(5)) {
	case 0:
		data[at] ^= (uint8_t)(1u << any(8));
		return len;
	case 1:
		data[at] = (uint8_t)any(256);
		return len;
	case 2:
		return at;
	case 3:
		n = n > len - at ? len - at : n;
		memmove(data + at, data + at + n, len - at - n);
		return len - n;
	default:
		n = n > len - at ? len - at : n;
		memmove(data + at + n, data + at, len - at);
		return len + n;
	}
}

static unsigned get_runs(void)
{
	const char *runs = getenv("CODEC_RUNS");

	return runs ? (unsigned)strtoul(runs, NULL, 10) : RUNS;
}

/* One body in three is one that the straight-line code does not have. */
START_TEST(same_as_protobuf)
{
	static uint8_t packed[8 * PACKET_MAX], ours[8 * PACKET_MAX];
	unsigned n_packed = 0, n_unpacked = 0, n_damaged = 0, runs = get_runs();

	for (unsigned i = 0; i < runs; i++) {
		const Rdmabroker__Frame *frame;
		size_t len, fast;

		get_arena(0);
		frame = (const Rdmabroker__Frame *)any_message(&rdmabroker__frame__descriptor, 0);
		len = rdmabroker__frame__get_packed_size(frame);
		MUST(len <= sizeof(packed) - 8);
		rdmabroker__frame__pack(frame, packed);
		fast = codec_try_pack(frame, ours, sizeof(ours));
		if (fast > 0) {
			n_packed++;
			MUST(fast == len && memcmp(ours, packed, len) == 0);
		}
		MUST(codec_pack(frame, ours, sizeof(ours)) == len &&
		     memcmp(ours, packed, len) == 0);
		n_unpacked += compare(packed, len);
		if (len > 0)
			n_damaged += compare(packed, damage(packed, len));
	}
	printf("    %u frames: %u packed, %u unpacked, %u of as many damaged ones\n", runs,
	       n_packed, n_unpacked, n_damaged);
	ck_assert_uint_gt(n_packed, runs / 4);
	ck_assert_uint_gt(n_unpacked, runs / 8);
	ck_assert_uint_gt(n_damaged, runs / 100);
}
END_TEST

/* Whatever the size of the space is, nothing is written outside of it. */
START_TEST(little_space)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	static uint8_t packed[PACKET_MAX], space[PACKET_MAX + 64];

	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	for (unsigned i = 0; i < 2000; i++) {
		size_t len, size, n;

		get_arena(0);
		frame.request = (Rdmabroker__Request *)any_message(&rdmabroker__request__descriptor,
								   DEPTH - 3);
		len = codec_pack(&frame, packed, sizeof(packed));
		if (len == 0)
			continue;
		size = any((uint32_t)len + 40);
		memset(space, 0xee, sizeof(space));
		n = codec_pack(&frame, space + 32, size);
		ck_assert_uint_eq(n, size >= len ? len : 0);
		if (n > 0)
			ck_assert_mem_eq(space + 32, packed, len);
		for (size_t k = 0; k < sizeof(space); k++)
			MUST((k >= 32 && k < 32 + size) || space[k] == 0xee);
	}
}
END_TEST

START_TEST(longer_than_a_packet)
{
	static uint8_t buf[PACKET_MAX], data[LONG];
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Reject reject = RDMABROKER__REJECT__INIT;

	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = &request;
	request.op_case = RDMABROKER__REQUEST__OP_REJECT;
	request.reject = &reject;
	reject.private_data = (ProtobufCBinaryData){ .len = sizeof(data), .data = data };
	ck_assert_uint_eq(codec_pack(&frame, buf, sizeof(buf)), 0);
	for (size_t n = PACKET_MAX - 40; n < PACKET_MAX; n++) {
		size_t len;

		reject.private_data.len = n;
		len = rdmabroker__frame__get_packed_size(&frame);
		ck_assert_uint_eq(codec_pack(&frame, buf, sizeof(buf)),
				  len <= sizeof(buf) ? len : 0);
	}
}
END_TEST

/* A frame for which the first block is too small is left to protobuf-c, which takes further blocks. */
START_TEST(little_memory)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT, *in;
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	Rdmabroker__QpAttr attr = RDMABROKER__QP_ATTR__INIT;
	Rdmabroker__ConnParam conn = RDMABROKER__CONN_PARAM__INIT;
	uint8_t buf[PACKET_MAX], data[196] = "data";
	struct arena arena;
	size_t len;

	frame.body_case = RDMABROKER__FRAME__BODY_EVENT;
	frame.event = &event;
	event.conn = &conn;
	event.qp = &attr;
	conn.private_data = (ProtobufCBinaryData){ .len = sizeof(data), .data = data };
	attr.qkey = 17;
	len = codec_pack(&frame, buf, sizeof(buf));
	for (size_t size = 0; size < 1024; size += 16) {
		struct arena_block *first = malloc(sizeof(*first) + size);

		arena_init(&arena, first, size, /* more_max= */ 65536);
		in = codec_unpack(&arena, buf, len);
		ck_assert_ptr_nonnull(in);
		if (size >= sizeof(*in))
			ck_assert_ptr_eq(in, first->space);
		ck_assert_uint_eq(in->event->qp->qkey, 17);
		ck_assert_mem_eq(in->event->conn->private_data.data, data, sizeof(data));
		arena_free(first);
	}
}
END_TEST

/* What a connection needs in its life goes through the straight-line code. */
START_TEST(life_of_a_connection)
{
	static const char *const names[] = {
		"destroy_id", "bind_addr", "listen",    "resolve_addr", "resolve_route", "connect",
		"accept",     "reject",    "establish", "disconnect",   "init_qp_attr",  "wake",
	};
	uint8_t buf[PACKET_MAX];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const ProtobufCFieldDescriptor *op =
			protobuf_c_message_descriptor_get_field_by_name(
				&rdmabroker__request__descriptor, names[i]);
		Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
		Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
		size_t len;

		ck_assert_ptr_nonnull(op);
		get_arena(0);
		request.op_case = (Rdmabroker__Request__OpCase)op->id;
		set_field(&request.base, op, 0);
		frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
		frame.request = &request;
		len = codec_try_pack(&frame, buf, sizeof(buf));
		ck_assert_msg(len > 0 && compare(buf, len), "%s", names[i]);
	}
}
END_TEST

/* VALUE, which is below 128, in N bytes. */
static uint8_t *put_long(uint8_t *to, uint8_t value, unsigned n)
{
	for (unsigned i = 1; i < n; i++) {
		*to++ = value | 0x80;
		value = 0;
	}
	*to++ = value;
	return to;
}

/* A request of no arguments, in which the tag, the length and a number have more bytes than they need. */
START_TEST(long_numbers)
{
	unsigned n_read = 0;

	for (unsigned n = 0; n < 12 * 12 * 12; n++) {
		uint8_t packet[64] = { 0x0a }, *end = packet + 2;

		*end++ = 0x08;
		end = put_long(end, 7, 1 + n % 12);
		end = put_long(end, 0x1a, 1 + n / 12 % 12);
		end = put_long(end, 0, 1 + n / 144);
		packet[1] = (uint8_t)(end - packet - 2);
		n_read += compare(packet, (size_t)(end - packet));
	}
	ck_assert_uint_gt(n_read, 0);
}
END_TEST

UNIT_MAIN("codec", NULL, NULL, same_as_protobuf, little_space, longer_than_a_packet, little_memory,
	  life_of_a_connection, long_numbers)
