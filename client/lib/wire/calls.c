/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/wire/bounded.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/wire.h"
#include "proto/packet.h"

#define UNANSWERED_MAX \
	16 /* with this many pending calls that get no reply on success, call_send() requests one */

static int pack_and_send(struct wire *wire, struct call *call, Rdmabroker__Request *request,
			 int64_t deadline)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	uint8_t buf[PACKET_MAX];
	size_t len;
	int r;

	if (++wire->serial == 0)
		wire->serial = 1;
	request->serial = call->serial = wire->serial;
	request->quiet = call->only_failure;
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	if (!bounded_request(request) && rdmabroker__frame__get_packed_size(&frame) > sizeof(buf))
		return fail(EMSGSIZE, "%s: the request is too long", call->name);
	len = rdmabroker__frame__pack(&frame, buf);

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
	call->order = ++wire->n_sent;
	return 0;
}

int call_exchange(struct wire *wire, struct call *call, Rdmabroker__Request *request,
		  int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	int r = wire_check_socket(wire);

	if (r < 0)
		return r;
	call->answer = ANSWER_TO_THREAD;
	pending_add(wire, call);
	wire_count_waiting(wire, 1);
	r = pack_and_send(wire, call, request, deadline);
	while (r == 0 && call->state != CALL_REPLIED) {
		r = wire_check(wire);
		if (r == 0 && deadline_left(deadline) <= 0)
			r = fail(ETIMEDOUT, "%s: the broker did not answer in time", call->name);
		if (r == 0)
			pump_poll(wire, POLLIN, deadline);
	}
	wire_count_waiting(wire, -1);
	if (call->state == CALL_PENDING)
		pending_remove(wire, call);
	return call->state == CALL_REPLIED ? 0 : r;
}

/* Returns the failure that FRAME reports, and frees FRAME. */
static int fail_by_reply(Rdmabroker__Frame *frame)
{
	const Rdmabroker__Failure *failure = frame->reply->failure;
	int r = fail_remote(failure->error, failure->text, failure->rule, failure->retry_after_ms);

	frame_free(frame);
	return r;
}

int call_take_reply(struct call *call, Rdmabroker__Frame **ret)
{
	if (call->frame->reply->failure)
		return fail_by_reply(call->frame);
	if (ret)
		*ret = call->frame;
	else
		frame_free(call->frame);
	return 0;
}

int call_end(struct wire *wire, struct call *call)
{
	if (call->state == CALL_PENDING)
		pending_remove(wire, call);
	if (call->state != CALL_REPLIED)
		return 0;
	if (call->frame->reply->failure) {
		call->state = CALL_REFUSED;
		return fail_by_reply(call->frame);
	}
	call->state = CALL_IDLE;
	frame_free(call->frame);
	return 0;
}

int call_begin(struct wire *wire, struct call *call, Rdmabroker__Request *request, int timeout_ms)
{
	int r = wire_check_socket(wire);

	if (r < 0)
		return r;
	call->answer = ANSWER_FAILURE_TO_THREAD;
	call->only_failure = true;
	pending_add(wire, call);
	r = pack_and_send(wire, call, request, deadline_after(timeout_ms));
	if (r < 0)
		call_end(wire, call);
	return r;
}

int call_send(struct wire *wire, struct call *like, Rdmabroker__Request *request, int timeout_ms)
{
	struct call *call = malloc(sizeof(*call));
	int r;

	if (!call)
		return fail(ENOMEM, "%s: out of memory", like->name);
	*call = *like;
	r = wire_check_socket(wire);
	if (r == 0) {
		/* Sometimes request a reply: it implies that the earlier calls that got no reply have succeeded. */
		call->only_failure = call->answer != ANSWER_AS_EVENT && !call->must_reply &&
				     wire->n_unanswered < UNANSWERED_MAX;
		pending_add(wire, call);
		r = pack_and_send(wire, call, request, timeout_ms ? deadline_after(timeout_ms) : 0);
		if (r < 0)
			pending_remove(wire, call);
	}
	if (r < 0)
		free(call);
	return r;
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

int call_wait_within(struct wire *wire, const char *name, Rdmabroker__Request *request,
		     Rdmabroker__Reply__ResultCase result, int timeout_ms, Rdmabroker__Frame **ret)
{
	struct call call = { .name = name };
	int r = call_wait_like(wire, &call, request, timeout_ms, ret);

	if (r == 0 && (*ret)->reply->result_case != result) {
		frame_free(*ret);
		r = fail(EPROTO, "%s: the broker's reply is of the wrong type", name);
	}
	return r;
}

int call_wait_for(struct wire *wire, const char *name, Rdmabroker__Request *request,
		  Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret)
{
	return call_wait_within(wire, name, request, result, wire->call_timeout_ms, ret);
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
