/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "proto/address.h"
#include "proto/arena.h"
#include "proto/codec.h"
#include "proto/packet.h"
#include "rpc/convert.h"
#include "rpc/request.h"
#include "tests/fuzz/fuzz.h"

/*
 * Decodes a packet like the daemon: in its arena, then field by field. What the straight-line code reads, protobuf-c has
 * to read in the same way.
 */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	silence();
	return 0;
}

static void use_address(const Rdmabroker__Address *address)
{
	struct sockaddr_storage addr;
	Rdmabroker__Address again;

	if (address_unpack(&addr, address))
		return;
	must(address_pack(&again, (struct sockaddr *)&addr));
	must(again.addr.len == address->addr.len && again.port == address->port);
	must(memcmp(again.addr.data, address->addr.data, again.addr.len) == 0);
}

static void use_param(const Rdmabroker__ConnParam *in)
{
	struct rdma_conn_param param;

	if (in_conn_param(&param, in, 196))
		return;
	must(param.private_data_len == in->private_data.len);
	must(!param.private_data_len == !param.private_data);
	must(param.qp_num <= 0xffffff);
}

static void use_request(const Rdmabroker__Request *request)
{
	struct ibv_ece ece;

	switch (request->op_case) {
	case RDMABROKER__REQUEST__OP_BIND_ADDR:
		use_address(request->bind_addr->addr);
		break;
	case RDMABROKER__REQUEST__OP_RESOLVE_ADDR:
		use_address(request->resolve_addr->src);
		use_address(request->resolve_addr->dst);
		break;
	case RDMABROKER__REQUEST__OP_JOIN_MULTICAST:
		use_address(request->join_multicast->addr);
		break;
	case RDMABROKER__REQUEST__OP_CONNECT:
		use_param(request->connect->param);
		in_ece(&ece, request->connect->local_ece);
		break;
	case RDMABROKER__REQUEST__OP_ACCEPT:
		use_param(request->accept->param);
		in_ece(&ece, request->accept->local_ece);
		break;
	case RDMABROKER__REQUEST__OP_OPEN_DEVICE:
		must(strlen(request->open_device->name) <= PACKET_MAX);
		break;
	default:
		break;
	}
}

/*
 * Whether the message has unknown fields, or can have some in a repeated field. protobuf-c can encode unknown fields
 * in a form that it cannot decode.
 */
static bool has_unknown(const ProtobufCMessage *message)
{
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		const char *at = (const char *)message + field->offset;
		const ProtobufCMessage *inner;

		if (field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
		    *(const uint32_t *)((const char *)message + field->quantifier_offset) !=
			    field->id)
			continue;
		if (field->label == PROTOBUF_C_LABEL_REPEATED)
			return true;
		inner = *(const ProtobufCMessage *const *)at;
		if (inner && has_unknown(inner))
			return true;
	}
	return message->n_unknown_fields > 0;
}

/* SLOW: what protobuf-c has read; NULL: nothing. */
static void compare(const uint8_t *data, size_t size, const Rdmabroker__Frame *slow)
{
	static union request_memory memory;
	static uint8_t theirs[4 * PACKET_MAX], ours[4 * PACKET_MAX];
	const Rdmabroker__Frame *fast;
	struct arena arena;
	size_t n;

	arena_init(&arena, &memory.block, REQUEST_SPACE, /* more_max= */ 0);
	fast = codec_try_unpack(&arena, data, size);
	if (!fast)
		return;
	must(slow);
	n = rdmabroker__frame__get_packed_size(slow);
	must(n <= sizeof(theirs));
	must(rdmabroker__frame__get_packed_size(fast) == n);
	must(rdmabroker__frame__pack(slow, theirs) == n);
	must(codec_try_pack(fast, ours, sizeof(ours)) == n);
	must(memcmp(ours, theirs, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union request_memory memory, second;
	static uint8_t packed[4 * PACKET_MAX];
	struct arena arena;
	Rdmabroker__Frame *frame;
	size_t n;

	if (size > PACKET_MAX)
		return 0;
	arena_init(&arena, &memory.block, REQUEST_SPACE, /* more_max= */ 0);
	frame = rdmabroker__frame__unpack(&arena.allocator, size, data);
	must(memory.block.used <= REQUEST_SPACE && !memory.block.next);
	compare(data, size, frame);
	if (!frame)
		return 0;
	if (frame->body_case == RDMABROKER__FRAME__BODY_REQUEST)
		use_request(frame->request);

	n = rdmabroker__frame__get_packed_size(frame);
	if (n > sizeof(packed) || has_unknown(&frame->base))
		return 0;
	must(rdmabroker__frame__pack(frame, packed) == n);
	arena_init(&arena, &second.block, REQUEST_SPACE, /* more_max= */ 0);
	frame = rdmabroker__frame__unpack(&arena.allocator, n, packed);
	must(frame);
	return 0;
}
