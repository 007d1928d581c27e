/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/packet.h"
#include "tests/fuzz/hostile.h"
#include "tests/hooks/hooks.h"

#define N_SERIALS (sizeof(((struct hostile *)NULL)->serials) / sizeof(uint32_t))

static void send_bytes(struct hostile *hostile, const uint8_t *buf, size_t n, unsigned n_fds)
{
	int fds[PACKET_MAX_FDS] = { hostile->sock, hostile->sock, hostile->sock, hostile->sock };

	if (hostile->sock >= 0 && n > 0)
		packet_send(hostile->sock, buf, n, fds, n_fds);
}

static void send_frame(struct hostile *hostile, Rdmabroker__Frame *frame)
{
	uint8_t buf[PACKET_MAX];

	if (rdmabroker__frame__get_packed_size(frame) <= sizeof(buf))
		send_bytes(hostile, buf, rdmabroker__frame__pack(frame, buf), 0);
}

void hostile_send_event(struct hostile *hostile, Rdmabroker__Event *event)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;

	frame.body_case = RDMABROKER__FRAME__BODY_EVENT;
	frame.event = event;
	send_frame(hostile, &frame);
}

static void receive(struct hostile *hostile)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS];

	while (hostile->sock >= 0) {
		size_t n_fds = 0;
		ssize_t n = packet_recv(hostile->sock, buf, fds, PACKET_MAX_FDS, &n_fds);
		Rdmabroker__Frame *frame;

		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]);
		if (n < 0)
			return;
		frame = rdmabroker__frame__unpack(NULL, (size_t)n, buf);
		must(frame && frame->body_case == RDMABROKER__FRAME__BODY_REQUEST);
		must(frame->request->serial != 0);
		if (hostile->n_requests < N_SERIALS) {
			hostile->serials[hostile->n_requests] = frame->request->serial;
			hostile->ops[hostile->n_requests++] = frame->request->op_case;
		}
		rdmabroker__frame__free_unpacked(frame, NULL);
	}
}

static uint32_t next_request(struct hostile *hostile, int *ret_op)
{
	uint32_t serial = hostile->serials[0];

	*ret_op = RDMABROKER__REQUEST__OP__NOT_SET;
	if (hostile->n_requests == 0)
		return 0;
	*ret_op = hostile->ops[0];
	hostile->n_requests--;
	memmove(hostile->serials, hostile->serials + 1, sizeof(hostile->serials[0]) * 63);
	memmove(hostile->ops, hostile->ops + 1, sizeof(hostile->ops[0]) * 63);
	return serial;
}

/* Replies to the oldest pending request with success, and with the results that the library needs. */
static void answer_well(struct hostile *hostile)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__HelloResult hello = RDMABROKER__HELLO_RESULT__INIT;
	Rdmabroker__OpenDeviceResult device = RDMABROKER__OPEN_DEVICE_RESULT__INIT;
	Rdmabroker__ImportIdResult import = RDMABROKER__IMPORT_ID_RESULT__INIT;
	int op;

	reply.serial = next_request(hostile, &op);
	hello.version = 1;
	hello.max_ids = UINT32_MAX;
	device.name = "fake0";
	import.id = 0x80000005;
	if (op == RDMABROKER__REQUEST__OP_HELLO) {
		reply.result_case = RDMABROKER__REPLY__RESULT_HELLO;
		reply.hello = &hello;
	} else if (op == RDMABROKER__REQUEST__OP_OPEN_DEVICE) {
		reply.result_case = RDMABROKER__REPLY__RESULT_OPEN_DEVICE;
		reply.open_device = &device;
	} else if (op == RDMABROKER__REQUEST__OP_IMPORT_ID) {
		reply.result_case = RDMABROKER__REPLY__RESULT_IMPORT_ID;
		reply.import_id = &import;
	}
	frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
	frame.reply = &reply;
	send_frame(hostile, &frame);
}

static size_t put_length(uint8_t *buf, uint8_t tag, size_t n)
{
	buf[0] = tag;
	buf[1] = (uint8_t)(n & 127) | 128;
	buf[2] = (uint8_t)(n >> 7);
	return 3;
}

/*
 * Sends a frame whose field BODY is a message of type DESCRIPTOR with content from the input. SERIAL: that of a
 * pending request; 0: none.
 */
static void send_any(struct hostile *hostile, unsigned body,
		     const ProtobufCMessageDescriptor *descriptor, uint32_t serial)
{
	uint8_t message[4096], buf[sizeof(message) + 16];
	size_t n = make_message(hostile->input, descriptor, message, sizeof(message) - 8);

	/* The message may already contain a serial. The last one counts. */
	if (serial) {
		message[n++] = 1 << 3;
		for (; serial >= 128; serial >>= 7)
			message[n++] = (uint8_t)serial | 128;
		message[n++] = (uint8_t)serial;
	}
	memcpy(buf + put_length(buf, (uint8_t)(body << 3 | 2), n), message, n);
	send_bytes(hostile, buf, n + 3, take_digit(hostile->input) == 1);
}

static void fail_request(struct hostile *hostile)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__Failure failure = RDMABROKER__FAILURE__INIT;
	int op;

	reply.serial = take_digit(hostile->input) == 15 ? 0 : next_request(hostile, &op);
	reply.failure = &failure;
	failure.error = (int32_t)take_number(hostile->input);
	failure.retry_after_ms = take_number(hostile->input);
	failure.text = "no";
	frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
	frame.reply = &reply;
	send_frame(hostile, &frame);
}

/* Sends a valid event. Its id, which need not exist, its type and its status come from the input. */
static void send_event(struct hostile *hostile)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	Rdmabroker__QpAttr init = RDMABROKER__QP_ATTR__INIT;
	Rdmabroker__ConnParam conn = RDMABROKER__CONN_PARAM__INIT;
	const uint8_t *data;
	unsigned id = take_digit(hostile->input);

	event.id = id < 8 ? id : 0x80000000 + (id & 7);
	event.type = take_number(hostile->input);
	event.status = (int32_t)take_number(hostile->input);
	id = take_digit(hostile->input);
	event.request_id = id < 8 ? 0 : 0x80000000 + (id & 7);
	init.mask = 1;
	init.rtr_mask = init.rts_mask = 1;
	event.qp = id & 1 ? &init : NULL;
	conn.private_data.len = take_bytes(hostile->input, 20, 300, &data);
	conn.private_data.data = (uint8_t *)data;
	event.conn = &conn;
	hostile_send_event(hostile, &event);
}

static bool turn(void *userdata)
{
	struct hostile *hostile = userdata;
	const uint8_t *data;
	size_t n;
	int op;

	receive(hostile);
	if (hostile->honest && hostile->n_requests > 0) {
		answer_well(hostile);
		return true;
	}
	if (hostile->input->left == 0)
		return false;
	switch (take(hostile->input)) {
	case 'k':
		answer_well(hostile);
		return true;
	case 'K':
		fail_request(hostile);
		return true;
	case 'r':
		send_any(hostile, 2, &rdmabroker__reply__descriptor, next_request(hostile, &op));
		return true;
	case 'e':
		send_event(hostile);
		return true;
	case 'E':
		send_any(hostile, 3, &rdmabroker__event__descriptor, 0);
		return true;
	case 'N':
		send_any(hostile, 4, &rdmabroker__notice__descriptor, 0);
		return true;
	case 'w':
		n = take_bytes(hostile->input, 8, 120, &data);
		send_bytes(hostile, data, n, take_digit(hostile->input) & 3);
		return true;
	case 'z':
		if (hostile->sock >= 0)
			close(hostile->sock);
		hostile->sock = -1;
		return false;
	case 'f':
		hooks_arm(HOOK_CLIENT, take(hostile->input) % _HOOK_KIND_MAX,
			  take_digit(hostile->input) + 1, ENOMEM);
		return true;
	default:
		return false; /* no reply */
	}
}

static int connect_pair(void *userdata, int fd)
{
	struct hostile *hostile = userdata;
	int pair[2];

	must(hostile->sock < 0);
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	must(dup3(pair[0], fd, O_CLOEXEC) == fd);
	close(pair[0]);
	hostile->sock = pair[1];
	return 0;
}

struct rdmabroker *hostile_open(struct hostile *hostile, struct input *input, unsigned flags)
{
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = "/nowhere",
		.flags = flags,
		.call_timeout_ms = 10000, /* the clock advances when a wait has no result */
	};
	struct rdmabroker *session = NULL;

	*hostile = (struct hostile){ .input = input, .sock = -1, .honest = true };
	hooks_disarm();
	hooks_set_turn(turn, hostile);
	hooks_set_connect(connect_pair, hostile);
	if (rdmabroker_open(&options, &session) < 0)
		session = NULL;
	hostile->honest = false;
	return session;
}

void hostile_close(struct hostile *hostile, struct rdmabroker *session)
{
	hooks_disarm();
	rdmabroker_close(session);
	if (hostile->sock >= 0)
		close(hostile->sock);
	hostile->sock = -1;
}
