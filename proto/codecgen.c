/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/rdmabroker.pb-c.h"

/*
 * Writes coders.h, the straight-line coders of proto/codec.c, to the standard output when the project is built. They are
 * made from the descriptors of the messages, that is, from rdmabroker.proto.
 */

#define M(name) &rdmabroker__##name##__descriptor

/* The messages of a connection's life. A frame that has another one is left to protobuf-c. */
static const ProtobufCMessageDescriptor *const messages[] = {
	M(frame),
	M(request),
	M(reply),
	M(failure),
	M(address),
	M(create_id),
	M(destroy_id),
	M(set_option),
	M(get_option),
	M(bind_addr),
	M(get_option_result),
	M(listen),
	M(resolve_addr),
	M(resolve_route),
	M(conn_param),
	M(caps),
	M(ece),
	M(connect),
	M(accept),
	M(establish),
	M(reject),
	M(disconnect),
	M(init_qp_attr),
	M(id_info),
	M(qp_attr),
	M(ah_attr),
	M(ud_param),
	M(event),
	M(wake),
	M(woken),
};

#define N_MESSAGES (sizeof(messages) / sizeof(messages[0]))

static void give_up(const char *message, const char *field, const char *why)
{
	fprintf(stderr, "codecgen: %s.%s: %s\n", message, field, why);
	exit(EXIT_FAILURE);
}

/* The name as in functions ("conn_param") or, if UPPER, in macros ("CONN_PARAM"). */
static const char *name_of(const ProtobufCMessageDescriptor *message, int upper, char ret[64])
{
	size_t n = 0;

	for (const char *c = message->short_name; *c && n < 62; c++) {
		if (isupper(*c) && n > 0)
			ret[n++] = '_';
		ret[n++] = (char)(upper ? toupper(*c) : tolower(*c));
	}
	ret[n] = 0;
	return ret;
}

static int is_coded(const ProtobufCMessageDescriptor *message)
{
	for (size_t i = 0; i < N_MESSAGES; i++)
		if (messages[i] == message)
			return 1;
	return 0;
}

static int is_oneof(const ProtobufCFieldDescriptor *field)
{
	return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static unsigned tag_of(const ProtobufCFieldDescriptor *field)
{
	int has_length = field->type == PROTOBUF_C_TYPE_MESSAGE ||
			 field->type == PROTOBUF_C_TYPE_STRING ||
			 field->type == PROTOBUF_C_TYPE_BYTES;

	return field->id << 3 | (has_length ? 2 : 0);
}

/* Packing: from the end to the beginning, so that a message's length is known when it is written. */

static void put_message(const ProtobufCFieldDescriptor *field, const char *value)
{
	const ProtobufCMessageDescriptor *of = field->descriptor;
	char name[64];

	if (!is_coded(of)) {
		printf("\t\treturn NULL;\n");
		return;
	}
	printf("\t\tend = p;\n"
	       "\t\tp = put_%s(p, begin, %s);\n"
	       "\t\tif (!p || !has_room(p, begin))\n"
	       "\t\t\treturn NULL;\n"
	       "\t\tp = put_u32(put_u32(p, (uint32_t)(end - p)), %u);\n",
	       name_of(of, 0, name), value, tag_of(field));
}

static void put_field(const ProtobufCMessageDescriptor *of, const ProtobufCFieldDescriptor *field)
{
	char value[160];

	snprintf(value, sizeof(value), "m->%s", field->name);
	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		if (field->type != PROTOBUF_C_TYPE_MESSAGE)
			give_up(of->short_name, field->name, "a repeated field that is no message");
		snprintf(value, sizeof(value), "m->%s[i]", field->name);
		printf("\tfor (size_t i = m->n_%s; i-- > 0;) {\n", field->name);
		put_message(field, value);
		printf("\t}\n");
		return;
	}
	printf("\tif (");
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_BOOL:
		printf("%s) {\n\t\tif (!has_room(p, begin))\n\t\t\treturn NULL;\n", value);
		printf("\t\tp = put_u32(put_%s(p, %s), %u);\n",
		       field->type == PROTOBUF_C_TYPE_UINT32 ? "u32" :
		       field->type == PROTOBUF_C_TYPE_UINT64 ? "u64" :
		       field->type == PROTOBUF_C_TYPE_INT32  ? "i32" :
							       "bool",
		       value, tag_of(field));
		break;
	case PROTOBUF_C_TYPE_STRING:
		printf("%s && %s[0]) {\n", value, value);
		printf("\t\tp = put_bytes(p, begin, (const uint8_t *)%s, strlen(%s));\n", value,
		       value);
		printf("\t\tif (!p)\n\t\t\treturn NULL;\n\t\tp = put_u32(p, %u);\n", tag_of(field));
		break;
	case PROTOBUF_C_TYPE_BYTES:
		printf("%s.len > 0) {\n", value);
		printf("\t\tp = put_bytes(p, begin, %s.data, %s.len);\n", value, value);
		printf("\t\tif (!p)\n\t\t\treturn NULL;\n\t\tp = put_u32(p, %u);\n", tag_of(field));
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		printf("%s) {\n", value);
		put_message(field, value);
		break;
	default:
		give_up(of->short_name, field->name, "its type is not supported");
	}
	printf("\t}\n");
}

/* The oneof whose last member is field I. Returns its first one. */
static unsigned put_oneof(const ProtobufCMessageDescriptor *of, unsigned i)
{
	unsigned offset = of->fields[i].quantifier_offset;

	printf("\tswitch (*chosen(m, %u)) {\n", offset);
	for (;; i--) {
		printf("\tcase %u:\n", of->fields[i].id);
		put_field(of, &of->fields[i]);
		printf("\tbreak;\n");
		if (i == 0 || !is_oneof(&of->fields[i - 1]) ||
		    of->fields[i - 1].quantifier_offset != offset)
			break;
	}
	printf("\t}\n");
	return i;
}

static void make_put(const ProtobufCMessageDescriptor *of)
{
	char name[64];

	printf("static uint8_t *put_%s(uint8_t *p, const uint8_t *begin, const %s *m)\n{\n",
	       name_of(of, 0, name), of->c_name);
	for (unsigned i = 0; i < of->n_fields; i++)
		if (of->fields[i].type == PROTOBUF_C_TYPE_MESSAGE &&
		    is_coded(of->fields[i].descriptor)) {
			printf("\tconst uint8_t *end;\n\n");
			break;
		}
	for (unsigned i = of->n_fields; i-- > 0;)
		if (is_oneof(&of->fields[i]))
			i = put_oneof(of, i);
		else
			put_field(of, &of->fields[i]);
	printf("\treturn p;\n}\n\n");
}

/*
 * Unpacking: only what put_*() writes, with the fields in their order, and each at most once. All else, such as an unknown
 * field, is left to protobuf-c.
 */

static void get_field(const ProtobufCMessageDescriptor *of, const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *inner = field->descriptor;
	char name[64];

	if (field->label == PROTOBUF_C_LABEL_REPEATED ||
	    (field->type == PROTOBUF_C_TYPE_MESSAGE && !is_coded(inner)))
		return;
	printf("\t\tcase %u:\n", tag_of(field));
	if (is_oneof(field))
		printf("\t\t\tif (*chosen(m, %u))\n\t\t\t\treturn false;\n"
		       "\t\t\t*chosen(m, %u) = %u;\n",
		       field->quantifier_offset, field->quantifier_offset, field->id);
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32:
		printf("\t\t\tp = get_u32(p, end, &m->%s);\n", field->name);
		break;
	case PROTOBUF_C_TYPE_UINT64:
		printf("\t\t\tp = get_u64(p, end, &m->%s);\n", field->name);
		break;
	case PROTOBUF_C_TYPE_INT32:
		printf("\t\t\tp = get_i32(p, end, &m->%s);\n", field->name);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		printf("\t\t\tp = get_bool(p, end, &m->%s);\n", field->name);
		break;
	case PROTOBUF_C_TYPE_STRING:
		printf("\t\t\tp = get_text(arena, p, end, &m->%s);\n", field->name);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		printf("\t\t\tp = get_bytes(arena, p, end, &m->%s);\n", field->name);
		break;
	default:
		printf("\t\t\tp = get_len(p, end, &len);\n"
		       "\t\t\tif (!p)\n\t\t\t\treturn false;\n"
		       "\t\t\tm->%s = arena_take(arena, sizeof(*m->%s));\n"
		       "\t\t\tif (!m->%s || !get_%s(arena, p, p + len, m->%s))\n"
		       "\t\t\t\treturn false;\n"
		       "\t\t\tp += len;\n",
		       field->name, field->name, field->name, name_of(inner, 0, name), field->name);
		break;
	}
	printf("\t\t\tbreak;\n");
}

static int has_messages(const ProtobufCMessageDescriptor *of)
{
	for (unsigned i = 0; i < of->n_fields; i++)
		if (of->fields[i].type == PROTOBUF_C_TYPE_MESSAGE &&
		    of->fields[i].label != PROTOBUF_C_LABEL_REPEATED &&
		    is_coded(of->fields[i].descriptor))
			return 1;
	return 0;
}

static void make_get(const ProtobufCMessageDescriptor *of)
{
	char name[64], upper[64];

	printf("static bool get_%s(struct arena *arena, const uint8_t *p, const uint8_t *end, %s *m)\n"
	       "{\n"
	       "\tstatic const %s empty = RDMABROKER__%s__INIT;\n"
	       "\tuint32_t tag, last = 0%s;\n\n"
	       "\t*m = empty;\n"
	       "\twhile (p < end) {\n"
	       "\t\tp = get_short(p, end, &tag);\n"
	       "\t\tif (!p || tag >> 3 <= last)\n"
	       "\t\t\treturn false;\n"
	       "\t\tlast = tag >> 3;\n"
	       "\t\tswitch (tag) {\n",
	       name_of(of, 0, name), of->c_name, of->c_name, name_of(of, 1, upper),
	       has_messages(of) ? ", len" : "");
	for (unsigned i = 0; i < of->n_fields; i++)
		get_field(of, &of->fields[i]);
	printf("\t\tdefault:\n"
	       "\t\t\treturn false;\n"
	       "\t\t}\n"
	       "\t\tif (!p)\n"
	       "\t\t\treturn false;\n"
	       "\t}\n"
	       "\treturn true;\n"
	       "}\n\n");
}

int main(void)
{
	char name[64];

	printf("/* Made by proto/codecgen.c from rdmabroker.proto. */\n\n");
	for (size_t i = 0; i < N_MESSAGES; i++) {
		name_of(messages[i], 0, name);
		printf("static uint8_t *put_%s(uint8_t *p, const uint8_t *begin, const %s *m);\n",
		       name, messages[i]->c_name);
		printf("static bool get_%s(struct arena *arena, const uint8_t *p, const uint8_t *end,\n"
		       "\t\t%s *m);\n",
		       name, messages[i]->c_name);
	}
	printf("\n");
	for (size_t i = 0; i < N_MESSAGES; i++) {
		make_put(messages[i]);
		make_get(messages[i]);
	}
	return ferror(stdout) || fclose(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
