/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "util/log.h"

void broken(const char *what)
{
	fprintf(stderr, "This does not hold: %s\n", what);
	abort();
}

void silence(void)
{
	log_set_level(-1);
}

uint8_t take(struct input *input)
{
	if (input->left == 0)
		return 0;
	input->left--;
	return *input->data++;
}

unsigned take_digit(struct input *input)
{
	return take(input) & 15;
}

uint32_t take_number(struct input *input)
{
	static const uint32_t numbers[] = {
		0,          1,          2,          3,          255,      256,       65535, 65536,
		0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xffffff, 0x1000000, 17,    24,
	};
	uint8_t c = take(input);

	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'p' ? numbers[c - 'a'] : c;
}

size_t take_bytes(struct input *input, size_t scale, size_t max, const uint8_t **ret)
{
	size_t n = take_digit(input) * scale;

	if (n > max)
		n = max;
	if (n > input->left)
		n = input->left;
	*ret = input->data;
	input->data += n;
	input->left -= n;
	return n;
}

#define DEPTH_MAX 4

struct out {
	uint8_t *buf;
	size_t n, size;
};

static void put(struct out *out, uint8_t byte)
{
	if (out->n < out->size)
		out->buf[out->n++] = byte;
}

static void put_varint(struct out *out, uint64_t value)
{
	for (; value >= 128; value >>= 7)
		put(out, (uint8_t)value | 128);
	put(out, (uint8_t)value);
}

static void put_bytes(struct out *out, const uint8_t *data, size_t n)
{
	put_varint(out, n);
	for (size_t i = 0; i < n; i++)
		put(out, data[i]);
}

static void put_message(struct out *out, struct input *input,
			const ProtobufCMessageDescriptor *descriptor, int depth);

static void put_field(struct out *out, struct input *input, const ProtobufCFieldDescriptor *field,
		      int depth)
{
	const uint8_t *data;
	size_t n;

	switch (field->type) {
	case PROTOBUF_C_TYPE_MESSAGE: {
		uint8_t buf[4096];
		struct out inner = { buf, 0, sizeof(buf) };

		if (depth >= DEPTH_MAX)
			return;
		put_message(&inner, input, field->descriptor, depth + 1);
		put_varint(out, field->id << 3 | 2);
		put_bytes(out, buf, inner.n);
		break;
	}
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
		n = take_bytes(input, 4, 240, &data);
		/*
		 * The length is a multiple of 4, because an address has 4 or 16 bytes; at the end of the input it is
		 * what is left. An empty string becomes the name of the fake device.
		 */
		if (field->type == PROTOBUF_C_TYPE_STRING && n == 0) {
			data = (const uint8_t *)"fake0";
			n = 5;
		}
		put_varint(out, field->id << 3 | 2);
		put_bytes(out, data, n);
		break;
	default:
		put_varint(out, field->id << 3);
		put_varint(out, take_number(input));
	}
}

/*
 * A digit of the input sets how many times each field occurs: 0 to 3. If several fields of a oneof occur, the last
 * one counts.
 */
static void put_message(struct out *out, struct input *input,
			const ProtobufCMessageDescriptor *descriptor, int depth)
{
	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		unsigned n = take_digit(input) & 3;

		if (n == 3 && field->label != PROTOBUF_C_LABEL_REPEATED)
			n = 1;
		while (n-- > 0)
			put_field(out, input, field, depth);
	}
}

size_t make_message(struct input *input, const ProtobufCMessageDescriptor *descriptor, uint8_t *buf,
		    size_t size)
{
	struct out out = { buf, 0, size };

	put_message(&out, input, descriptor, 0);
	return out.n;
}
