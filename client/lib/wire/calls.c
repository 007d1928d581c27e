/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/wire/calls.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/wire.h"
#include "proto/codec.h"
#include "proto/packet.h"

/* With this many pending calls that get no reply on success, and none answered since, call_send() requests one. */
#define UNANSWERED_MAX 16

static uint32_t next_serial(struct wire *wire)
{
	if (++wire->serial == 0)
		wire->serial = 1;
	return wire->serial;
}

static int send_packet(struct wire *wire, struct call *call, const uint8_t *buf, size_t len,
		       int64_t deadline)
{
	int r;

	for (;;) {
		r = packet_send(wire->sock.fd, buf, len, call->send_fd, call->send_fd != NULL);
		if (r != -EAGAIN)
			break;
		if (deadline == 0)
			return fail(EAGAIN, "%s: the socket is full", call->name);
		if (deadline_left(deadline) <= 0)
			return fail(ETIMEDOUT, "%s: the broker did not read the request in time",
				    call->name);
		/* Receive while waiting for room: the daemon can be waiting until we have taken its replies. */
		pump_poll(wire, POLLIN | POLLOUT, deadline);
		r = wire_check(wire);
		if (r < 0)
			return r;
	}
	if (r == -ECONNRESET) {
		/* Packets that are still in the socket can have the reason. */
		pump_drain(wire);
		wire_die(wire, r);
		return wire_check(wire);
	}
	if (r < 0)
		return fail(-r, "%s: cannot send the request: %s", call->name, strerror(-r));
	wire->ahead = false;
	call->order = ++wire->n_sent;
	return 0;
}

#define SMALL 512 /* in bytes: enough for most requests; the thread's stack can be small */

static int pack_and_send(struct wire *wire, struct call *call, Rdmabroker__Request *request,
			 int64_t deadline)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	uint8_t small[SMALL], *large = NULL;
	size_t len;
	int r;

	request->serial = call->serial = next_serial(request->apart ? wire->replies : wire);
	request->quiet = call->only_failure;
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	len = codec_pack(&frame, small, sizeof(small));
	if (len == 0) {
		large = malloc(PACKET_MAX);
		if (!large)
			return fail(ENOMEM, "%s: out of memory", call->name);
		len = codec_pack(&frame, large, PACKET_MAX);
	}
	r = len > 0 ? send_packet(wire, call, large ?: small, len, deadline) :
		      fail(EMSGSIZE, "%s: the request is too long", call->name);
	free(large);
	return r;
}

int call_exchange(struct wire *wire, struct call *call, Rdmabroker__Request *request,
		  int timeout_ms)
{
	struct wire *replies = wire->replies;
	int64_t deadline = deadline_after(timeout_ms);
	int r = wire_check_socket(wire);

	if (r == 0 && wire_is_direct(wire))
		r = wire_check_socket(replies);
	if (r < 0)
		return r;
	call->answer = ANSWER_TO_THREAD;
	call->of = wire;
	request->apart = wire_is_direct(wire);
	pending_add(replies, call);
	wire_count_waiting(replies, 1);
	r = pack_and_send(wire, call, request, deadline);
	while (r == 0 && call->state != CALL_REPLIED) {
		r = wire_check(replies);
		if (r == 0 && deadline_left(deadline) <= 0)
			r = fail(ETIMEDOUT, "%s: the broker did not answer in time", call->name);
		if (r == 0 && replies->reading)
			wire_wait_for_call(replies, call, deadline);
		else if (r == 0)
			pump_poll(replies, POLLIN, deadline);
	}
	wire_count_waiting(replies, -1);
	if (call->state == CALL_PENDING)
		pending_remove(replies, call);
	/* If this thread was to read the socket, another one does now. */
	wire_wake(replies);
	return call->state == CALL_REPLIED ? 0 : r;
}

int call_take_reply(struct call *call, Rdmabroker__Frame **ret)
{
	const Rdmabroker__Reply *reply = call->frame->reply;
	const Rdmabroker__Failure *failure = reply->failure;
	int r = 0;

	if (failure)
		r = fail_remote(failure->error, failure->text, failure->rule,
				failure->retry_after_ms);
	else if (call->result && reply->result_case != call->result)
		r = fail(EPROTO, "%s: the broker's reply is of the wrong type", call->name);
	if (r == 0 && ret)
		*ret = call->frame;
	else
		frame_free(call->frame);
	return r;
}

int call_end(struct wire *wire, struct call *call)
{
	int r;

	if (call->state == CALL_PENDING)
		pending_remove(wire, call);
	if (call->state != CALL_REPLIED)
		return 0;
	r = call_take_reply(call, NULL);
	call->state = r < 0 ? CALL_REFUSED : CALL_IDLE;
	return r;
}

int call_begin(struct wire *wire, struct call *call, Rdmabroker__Request *request, int timeout_ms)
{
	int r = wire_check_socket(wire);

	if (r < 0)
		return r;
	call->answer = ANSWER_FAILURE_TO_THREAD;
	call->only_failure = true;
	call->of = wire;
	pending_add(wire, call);
	r = pack_and_send(wire, call, request, deadline_after(timeout_ms));
	if (r < 0)
		call_end(wire, call);
	return r;
}

/*
 * If there are many calls that the broker answers only if they fail, asks something for its reply, which settles them. After
 * such a reply, calls can be pending until a thread has received the events that were sent before it: another reply would
 * settle none of them sooner.
 */
static int limit_unanswered(struct wire *wire, int timeout_ms)
{
	REQUEST(request, m, ListDevices, LIST_DEVICES, list_devices);
	struct call call = { .name = "list_devices" };
	int r;

	if (wire->n_unanswered < UNANSWERED_MAX || wire->n_sent - wire->answered < UNANSWERED_MAX ||
	    timeout_ms == 0)
		return 0;
	r = call_exchange(wire, &call, &request, timeout_ms);
	if (r == 0)
		frame_free(call.frame);
	return r;
}

int call_send(struct wire *wire, struct call *like, Rdmabroker__Request *request, int timeout_ms)
{
	struct call *call = malloc(sizeof(*call));
	int r;

	if (!call)
		return fail(ENOMEM, "%s: out of memory", like->name);
	*call = *like;
	call->of = wire;
	r = wire_check_socket(wire);
	if (r == 0 && wire_is_direct(wire))
		r = limit_unanswered(wire, timeout_ms);
	if (r == 0) {
		/*
		 * Sometimes request a reply: it implies that the earlier calls that got no reply have succeeded. By a
		 * direct wire no such reply may come.
		 */
		call->only_failure = wire_is_direct(wire) ||
				     (call->answer != ANSWER_AS_EVENT && !call->must_reply &&
				      wire->n_unanswered < UNANSWERED_MAX);
		pending_add(wire, call);
		r = pack_and_send(wire, call, request, timeout_ms ? deadline_after(timeout_ms) : 0);
		if (r < 0)
			pending_remove(wire, call);
	}
	if (r < 0)
		free(call);
	return r;
}

int call_tell(struct wire *wire, Rdmabroker__Request *request)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	uint8_t buf[64];

	request->serial = next_serial(wire);
	request->quiet = true;
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	return packet_send(wire->sock.fd, buf, codec_pack(&frame, buf, sizeof(buf)), NULL, 0);
}

/* The functions that take the lock */

int call_wait_like(struct wire *wire, struct call *call, Rdmabroker__Request *request,
		   int timeout_ms, Rdmabroker__Frame **ret)
{
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	wire_lock(wire);
	r = call_exchange(wire, call, request, timeout_ms);
	wire_unlock(wire);
	return r < 0 ? r : call_take_reply(call, ret);
}

int call_wait(struct wire *wire, const char *name, Rdmabroker__Request *request)
{
	struct call call = { .name = name };

	return call_wait_like(wire, &call, request, wire->call_timeout_ms, NULL);
}

int call_wait_for(struct wire *wire, const char *name, Rdmabroker__Request *request,
		  Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret)
{
	struct call call = { .name = name, .result = result };

	return call_wait_like(wire, &call, request, wire->call_timeout_ms, ret);
}

int call_post(struct wire *wire, struct call *like, Rdmabroker__Request *request, int timeout_ms)
{
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	wire_lock(wire);
	r = call_send(wire, like, request, timeout_ms);
	wire_unlock(wire);
	return r;
}
