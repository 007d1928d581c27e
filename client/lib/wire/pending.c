/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "client/lib/wire/frame.h"
#include "client/lib/wire/pending.h"
#include "client/lib/wire/wire.h"

void pending_add(struct wire *wire, struct call *call)
{
	TAILQ_INSERT_TAIL(&wire->calls, call, link);
	call->state = CALL_PENDING;
	wire->n_unanswered += call->only_failure;
}

void pending_remove(struct wire *wire, struct call *call)
{
	TAILQ_REMOVE(&wire->calls, call, link);
	call->state = CALL_IDLE;
	wire->n_unanswered -= call->only_failure;
}

struct call *pending_find(struct wire *wire, uint32_t serial)
{
	struct call *call;

	TAILQ_FOREACH(call, &wire->calls, link) {
		/*
		 * A call that no thread waits for is freed when its reply comes. A hostile broker could reply
		 * while the call is still being sent: ignore such a reply.
		 */
		if (!call->order && !pending_is_waited(call))
			continue;
		/* Serial 0: the broker rejects the whole session; the oldest call gets that reply. */
		if (call->serial == serial || serial == 0)
			return call;
	}
	return NULL;
}

/*
 * Ends the calls that were sent before the call ORDER and that the broker answers only on failure. They have
 * succeeded, because the broker processes requests in order.
 */
static void settle_before(struct wire *wire, uint64_t order)
{
	struct call *call, *next;

	for (call = TAILQ_FIRST(&wire->calls); call && wire->n_unanswered > 0; call = next) {
		next = TAILQ_NEXT(call, link);
		if (!call->only_failure || !call->order || call->order >= order)
			continue;
		pending_remove(wire, call);
		if (pending_is_waited(call))
			continue;
		wire->ops->on_outcome(wire->session, call, NULL);
		free(call);
	}
}

void pending_settle_received(struct wire *wire)
{
	if (wire->settles == 0 || (int32_t)(wire->n_told - wire->n_received) > 0)
		return;
	settle_before(wire, wire->settles);
	wire->settles = 0;
}

int pending_answer(struct wire *wire, struct call *call, Rdmabroker__Frame *frame)
{
	struct wire *of = call->of;
	int r;

	if (of == wire) {
		settle_before(wire, call->order);
	} else {
		/* A failure of an earlier call can still be in the socket. */
		of->n_told = frame->reply->n_sent;
		of->settles = of->answered = call->order;
		pending_settle_received(of);
	}
	pending_remove(wire, call);
	r = of->ops->on_outcome(of->session, call, frame->reply);
	if (pending_is_waited(call)) {
		call->frame = frame;
		call->state = CALL_REPLIED;
		if (call->cond)
			pthread_cond_signal(call->cond);
	} else {
		frame_free(frame);
		free(call);
	}
	return r;
}

void pending_settle_handle(struct wire *wire, uint32_t handle)
{
	struct call *call;

	TAILQ_FOREACH(call, &wire->calls, link)
		if (call->only_failure && call->effect == EFFECT_DESTROYS &&
		    call->handle == handle) {
			settle_before(wire, call->order + 1);
			return;
		}
}

void pending_settle_outcome(struct wire *wire, uint32_t handle, uint32_t type)
{
	struct call *call;

	if (type >= 64)
		return;
	TAILQ_FOREACH(call, &wire->calls, link)
		if (call->only_failure && call->order && call->handle == handle &&
		    call->outcomes & (1ULL << type)) {
			settle_before(wire, call->order + 1);
			return;
		}
}

void pending_silence_handle(struct wire *wire, uint32_t handle)
{
	struct call *call;

	TAILQ_FOREACH(call, &wire->calls, link)
		if (call->handle == handle && !pending_is_waited(call))
			call->answer = ANSWER_DROPPED;
}

void pending_free_all(struct wire *wire)
{
	struct call *call;

	while ((call = TAILQ_FIRST(&wire->calls))) {
		TAILQ_REMOVE(&wire->calls, call, link);
		free(call);
	}
}
