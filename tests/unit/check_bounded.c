/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "client/lib/wire/bounded.h"
#include "proto/packet.h"
#include "tests/unit/unit.h"

/*
 * The library packs a request that bounded_request() accepts into PACKET_MAX bytes without computing its size. The
 * tests fill every request of the protocol.
 */

#define LONG 20000 /* longer than a packet */

/* The length of strings and bytes, and the number of elements of repeated fields. */
struct fill {
	size_t length, repeat;
};

static const struct fill fills[] = {
	{ 0, 0 },       { 16, 1 },   { 255, 4 },  { 256, 4 },  { 257, 4 },     { 256, 5 },
	{ 1000, 1000 }, { LONG, 0 }, { LONG, 4 }, { 0, LONG }, { LONG, LONG },
};

/* The memory of the message that is being tested. */
static void *blocks[1000];
static size_t n_blocks;

static void *allocate(size_t n, size_t size)
{
	ck_assert_uint_lt(n_blocks, sizeof(blocks) / sizeof(blocks[0]));
	blocks[n_blocks] = calloc(n, size);
	ck_assert_ptr_nonnull(blocks[n_blocks]);
	return blocks[n_blocks++];
}

static void free_blocks(void)
{
	while (n_blocks > 0)
		free(blocks[--n_blocks]);
}

static ProtobufCMessage *new_message(const ProtobufCMessageDescriptor *descriptor,
				     const struct fill *fill);

static size_t size_of(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	default:
		return 4;
	}
}

/* Sets VALUE so that it takes the most bytes in a packet. */
static void set_value(void *value, const ProtobufCFieldDescriptor *field, const struct fill *fill)
{
	static char text[LONG + 1];

	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		*(protobuf_c_boolean *)value = 1;
		return;
	case PROTOBUF_C_TYPE_STRING:
		memset(text, 'x', fill->length);
		text[fill->length] = 0;
		*(char **)value = text;
		return;
	case PROTOBUF_C_TYPE_BYTES:
		*(ProtobufCBinaryData *)value = (ProtobufCBinaryData){
			.len = fill->length,
			.data = (uint8_t *)text,
		};
		return;
	case PROTOBUF_C_TYPE_MESSAGE:
		*(ProtobufCMessage **)value = new_message(field->descriptor, fill);
		return;
	default:
		/* With all bits set, VALUE is -1 or the largest unsigned number, which take the most bytes. */
		memset(value, 0xff, size_of(field->type));
	}
}

static void set_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
		      const struct fill *fill)
{
	uint8_t *member = (uint8_t *)message + field->offset;
	size_t size = size_of(field->type);
	uint8_t *array;

	if (field->label != PROTOBUF_C_LABEL_REPEATED) {
		set_value(member, field, fill);
		return;
	}
	array = allocate(fill->repeat + 1, size);
	/* The elements can share their contents. */
	set_value(array, field, fill);
	for (size_t i = 1; i < fill->repeat; i++)
		memcpy(array + i * size, array, size);
	*(void **)(void *)member = array;
	*(size_t *)(void *)((uint8_t *)message + field->quantifier_offset) = fill->repeat;
}

/* Makes a message in which all fields are set. */
static ProtobufCMessage *new_message(const ProtobufCMessageDescriptor *descriptor,
				     const struct fill *fill)
{
	ProtobufCMessage *message = allocate(1, descriptor->sizeof_message);

	protobuf_c_message_init(descriptor, message);
	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		/* A submessage with a oneof would have to be tried with each member of the oneof. */
		ck_assert(!(descriptor->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF));
		set_field(message, &descriptor->fields[i], fill);
	}
	return message;
}

/* Fills REQUEST again, with OP, and returns the size of the packet. */
static size_t set_op(Rdmabroker__Request *request, const ProtobufCFieldDescriptor *op,
		     const struct fill *fill)
{
	const ProtobufCMessageDescriptor *descriptor = &rdmabroker__request__descriptor;
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;

	free_blocks();
	rdmabroker__request__init(request);
	for (unsigned i = 0; i < descriptor->n_fields; i++)
		if (!(descriptor->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
			set_field(&request->base, &descriptor->fields[i], fill);
	set_field(&request->base, op, fill);
	request->op_case = (Rdmabroker__Request__OpCase)op->id;
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	return rdmabroker__frame__get_packed_size(&frame);
}

START_TEST(an_accepted_request_fits)
{
	const ProtobufCMessageDescriptor *descriptor = &rdmabroker__request__descriptor;
	unsigned n_accepted = 0, n_too_long = 0;
	Rdmabroker__Request request;

	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *op = &descriptor->fields[i];

		if (!(op->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
			continue;
		for (size_t j = 0; j < sizeof(fills) / sizeof(fills[0]); j++) {
			size_t size = set_op(&request, op, &fills[j]);

			n_too_long += size > PACKET_MAX;
			if (!bounded_request(&request))
				continue;
			n_accepted++;
			ck_assert_msg(size <= PACKET_MAX,
				      "%s of %zu bytes: strings of %zu, %zu elements", op->name,
				      size, fills[j].length, fills[j].repeat);
		}
	}
	ck_assert_uint_gt(n_accepted, 0);
	ck_assert_uint_gt(n_too_long, 0);
}
END_TEST

/* The requests of a connection's life, with the most private data that a request can have. */
START_TEST(frequent_requests_are_accepted)
{
	static const char *const names[] = {
		"create_id",     "set_option",   "bind_addr",  "listen", "resolve_addr",
		"resolve_route", "connect",      "accept",     "reject", "establish",
		"disconnect",    "init_qp_attr", "destroy_id",
	};
	const struct fill fill = { 196, 4 };
	Rdmabroker__Request request;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const ProtobufCFieldDescriptor *op =
			protobuf_c_message_descriptor_get_field_by_name(
				&rdmabroker__request__descriptor, names[i]);

		ck_assert_ptr_nonnull(op);
		ck_assert_uint_lt(set_op(&request, op, &fill), 1024);
		ck_assert_msg(bounded_request(&request), "%s", names[i]);
	}
}
END_TEST

UNIT_MAIN("bounded", NULL, free_blocks, an_accepted_request_fits, frequent_requests_are_accepted)
