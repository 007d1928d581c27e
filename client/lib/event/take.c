/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/lib/event/blocking.h"
#include "client/lib/event/digest.h"
#include "client/lib/event/eventbuf.h"
#include "client/lib/event/lifetime.h"
#include "client/lib/event/queue.h"
#include "client/lib/event/take.h"
#include "client/lib/id/idstate.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/sessionparts.h"

static int take_lost(struct rdmabroker *session, struct rdmabroker_event **ret)
{
	struct eventbuf *event;

	if (session->queue->lost_taken)
		return fail(ECONNRESET, "the connection to the broker is lost");
	event = eventbuf_new(RDMABROKER_EVENT_LOST);
	if (!event)
		return fail(ENOMEM, "out of memory");
	session->queue->lost_taken = true;
	event->public.status = session->wire.dead;
	eventbuf_set_text(event, "the connection to the broker is lost");
	*ret = &event->public;
	return 0;
}

int take_event(struct rdmabroker *session, struct rdmabroker_id *id, uint64_t types,
	       int64_t deadline, struct call *call, struct rdmabroker_event **ret)
{
	struct rdmabroker_event *event;
	struct raw_event *raw;
	bool looked = false, reserved;
	int r = wire_check_process(&session->wire);

	if (r < 0)
		return r;
	wire_lock(&session->wire);
	lifetime_end_orphans(session);
	reserved = !id && session->queue->n_reserved > 0;
	session->queue->n_reserved -= reserved;
	for (;;) {
		raw = queue_find(session->queue, id, types);
		if (raw) {
			if (!id && !reserved)
				blocking_prepare(session);
			queue_remove(session->queue, raw);
			raw->id->n_digesting++;
			break;
		}
		if (call && call->state == CALL_REPLIED) {
			r = call_end(&session->wire, call);
			if (r < 0)
				break;
		}
		if (session->wire.dead) {
			r = id ? wire_check(&session->wire) : take_lost(session, ret);
			break;
		}
		/* Even with a timeout of 0 the socket is polled once. */
		if (pump_is_past(deadline, looked)) {
			r = fail(EAGAIN, "no event");
			break;
		}
		looked = pump_packet(&session->wire, deadline) == -ETIMEDOUT;
		lifetime_end_orphans(session);
	}
	if (call)
		call_end(&session->wire, call);
	wire_unlock(&session->wire);
	if (!raw)
		return r;

	event = digest_event(raw);
	wire_lock(&session->wire);
	if (--raw->id->n_digesting == 0)
		wire_wake(&session->wire);
	if (!event)
		queue_put_back(session->queue, raw);
	wire_unlock(&session->wire);
	if (!event)
		return fail(ENOMEM, "out of memory: the event stays queued, retry");
	queue_free_event(raw);
	*ret = event;
	return 0;
}

int rdmabroker_get_event(struct rdmabroker *session, int timeout_ms, struct rdmabroker_event **ret)
{
	return take_event(session, NULL, 0, deadline_after(timeout_ms), NULL, ret);
}
