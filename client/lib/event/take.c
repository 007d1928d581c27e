/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

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

static int explain_bad(const struct rdmabroker_event *event, const char *name)
{
	int error;

	switch (event->type) {
	case RDMABROKER_EVENT_REJECTED:
	case RDMABROKER_EVENT_UNREACHABLE:
		if (event->rejected_by == RDMABROKER_REJECTED_BY_NOBODY)
			return fail(EHOSTUNREACH, "%s: the peer does not answer", name);
		if (event->rejected_by == RDMABROKER_REJECTED_BY_POLICY)
			return fail(ECONNREFUSED, "%s: rejected by policy of the peer's broker: %s",
				    name, event->text);
		return fail(ECONNREFUSED, "%s: rejected%s%s", name, event->text ? ": " : "",
			    event->text ?: "");
	case RDMABROKER_EVENT_DEVICE_REMOVAL:
		if (event->status == 0)
			return fail(ENODEV, "%s: the device was removed", name);
		/* Policy or an admin has ended the id. */
		return fail(-event->status, "%s: the broker has ended the id: %s", name,
			    event->text ?: strerror(-event->status));
	default:
		error = event->status < 0 ? -event->status : ECONNABORTED;
		if (event->retry_after_ms > 0)
			return fail_remote(error, event->text ?: "busy", /* rule= */ "",
					   event->retry_after_ms);
		return fail(error, "%s: %s", name, event->text ?: strerror(error));
	}
}

int take_outcome_event(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		       int64_t deadline, struct rdmabroker_event **ret)
{
	const char *name = call->name;
	int r;

	*ret = NULL;
	r = take_event(id->session, id, good | bad | BIT(DEVICE_REMOVAL), deadline, call, ret);
	if (r == -EAGAIN)
		return fail(ETIMEDOUT, "%s: no outcome before the timeout", name);
	if (r < 0 || good & (1ULL << (*ret)->type))
		return r;
	return explain_bad(*ret, name);
}

int take_outcome(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		 int64_t deadline)
{
	struct rdmabroker_event *event;
	int r = take_outcome_event(id, call, good, bad, deadline, &event);

	rdmabroker_free_event(event);
	return r;
}
