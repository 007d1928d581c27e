/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/hooks/hooks.h"
#include "tests/unit/liar.h"

struct liar liar;
struct rdmabroker *session;

static void send_frame(Rdmabroker__Frame *frame)
{
	static uint8_t buf[PACKET_MAX];
	size_t n = rdmabroker__frame__get_packed_size(frame);

	ck_assert_uint_le(n, sizeof(buf));
	rdmabroker__frame__pack(frame, buf);
	ck_assert_int_eq(packet_send(liar.sock, buf, n, NULL, 0), 0);
	liar.n_sent += n;
}

void liar_send_event(Rdmabroker__Event *event)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;

	frame.body_case = RDMABROKER__FRAME__BODY_EVENT;
	frame.event = event;
	send_frame(&frame);
}

void liar_send_notice(Rdmabroker__Notice *notice)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;

	frame.body_case = RDMABROKER__FRAME__BODY_NOTICE;
	frame.notice = notice;
	send_frame(&frame);
}

void liar_send_reply(const Rdmabroker__Request *request, Rdmabroker__Reply *reply)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;

	reply->serial = request->serial;
	frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
	frame.reply = reply;
	send_frame(&frame);
}

void liar_say_yes(const Rdmabroker__Request *request)
{
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__HelloResult hello = RDMABROKER__HELLO_RESULT__INIT;
	Rdmabroker__OpenDeviceResult device = RDMABROKER__OPEN_DEVICE_RESULT__INIT;

	if (request->op_case == OP(HELLO)) {
		hello.version = 1;
		hello.max_ids = liar.max_ids;
		reply.result_case = RESULT(HELLO);
		reply.hello = &hello;
	} else if (request->op_case == OP(OPEN_DEVICE)) {
		device.name = (char *)"fake0";
		reply.result_case = RESULT(OPEN_DEVICE);
		reply.open_device = &device;
	}
	liar_send_reply(request, &reply);
}

static bool receive(void)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS];
	size_t n_fds = 0;
	ssize_t n = packet_recv(liar.sock, buf, fds, PACKET_MAX_FDS, &n_fds);
	Rdmabroker__Frame *frame;

	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	if (n < 0)
		return false;
	frame = rdmabroker__frame__unpack(NULL, (size_t)n, buf);
	ck_assert(frame && frame->body_case == RDMABROKER__FRAME__BODY_REQUEST);
	if (liar.answer)
		liar.answer(frame->request);
	rdmabroker__frame__free_unpacked(frame, NULL);
	return true;
}

static bool turn(void *userdata)
{
	bool did = false;

	while (!liar.is_deaf && receive())
		did = true;
	if (!liar.flood || patience_now_ms() >= liar.tired_at)
		return did;
	liar.flood();
	return true;
}

static int connect_pair(void *userdata, int fd)
{
	int pair[2];

	ck_assert_int_eq(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(dup3(pair[0], fd, O_CLOEXEC), fd);
	close(pair[0]);
	liar.sock = pair[1];
	return 0;
}

void liar_set_up(void)
{
	liar = (struct liar){ .sock = -1, .max_ids = UINT32_MAX, .answer = liar_say_yes };
	session = NULL;
	hooks_reset();
	hooks_set_turn(turn, NULL);
	hooks_set_connect(connect_pair, NULL);
	hooks_track_memory();
}

void liar_tear_down(void)
{
	rdmabroker_close(session);
	close(liar.sock);
	ck_assert_uint_eq(hooks_print_memory(HOOK_CLIENT), 0);
}

void liar_open(unsigned flags, int timeout_ms)
{
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = "/nowhere",
		.flags = flags,
		.call_timeout_ms = timeout_ms,
	};

	ck_assert_msg(rdmabroker_open(&options, &session) == 0, "%s",
		      rdmabroker_last_failure()->text);
}

void liar_start_flood(void (*flood)(void))
{
	liar.flood = flood;
	liar.tired_at = patience_end();
}

void liar_expect_not_tired(void)
{
	ck_assert_int_lt(patience_now_ms(), liar.tired_at);
}

struct rdmabroker_id *liar_make_id(void)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	return id;
}
