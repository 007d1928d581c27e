/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/event/queue.h"
#include "client/lib/event/receive.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/idtable.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pending.h"
#include "client/lib/wire/sessionparts.h"

/*
 * A CONNECT_REQUEST has a request_id, no other event has one. DONE and LOST are made only by the library. A negative
 * status has to be an errno.
 */
static bool is_sound(const Rdmabroker__Event *event)
{
	return event->type <= RDMABROKER_EVENT_TIMEWAIT_EXIT && event->status > -4096 &&
	       (event->type == RDMABROKER_EVENT_CONNECT_REQUEST) == (event->request_id != 0);
}

/* Whether the id of EVENT is not known yet, or is only there for another one. */
static bool is_held(struct rdmabroker *session, const Rdmabroker__Event *event)
{
	const struct rdmabroker_id *id;

	if (session->queue->n_importing == 0 || event->id < FIRST_REQUEST)
		return false;
	id = idtable_find(session->ids, event->id);
	return !id || id->held;
}

/*
 * Drops an event whose id was destroyed here. But a connection request to a destroyed listener is queued as an
 * orphan: lifetime_end_orphans() destroys its id, so that the broker rejects it.
 */
int receive_event(struct rdmabroker *session, Rdmabroker__Frame *frame)
{
	const Rdmabroker__Event *event = frame->event;
	struct raw_event *raw = is_sound(event) ? malloc(sizeof(*raw)) : NULL;
	int r = 0;

	if (!raw) {
		r = is_sound(event) ? -ENOMEM : -EPROTO;
		frame_free(frame);
		return r;
	}
	*raw = (struct raw_event){ .frame = frame };
	if (!queue_has_room(session->queue, raw)) {
		queue_free_event(raw);
		return -ENOBUFS;
	}
	if (is_held(session, event)) {
		queue_hold(session->queue, raw);
		return 0;
	}
	raw->type = (enum rdmabroker_event_type)event->type;
	pending_settle_outcome(&session->wire, event->id, event->type);
	raw->id = idtable_find(session->ids, event->id);
	if (event->request_id) {
		r = idstate_new_request(session, event->request_id,
					raw->id ? raw->id->ps : RDMABROKER_PS_TCP, &raw->request);
		if (r == 0)
			raw->request->stage = STAGE_REQUEST;
		if (r == 0 && raw->id && idstate_is_datagram(raw->id))
			raw->request->options[IDSTATE_QP_TYPE] = raw->id->options[IDSTATE_QP_TYPE];
	} else if (raw->id) {
		raw->id->stage = idstate_after_event(event->type);
		if (event->type == RDMABROKER_EVENT_ROUTE_RESOLVED)
			raw->id->routed = false;
	}
	if (r < 0 || (!raw->id && !raw->request)) {
		queue_free_event(raw);
		return r;
	}
	queue_add(session->queue, raw);
	if (!event->routed || !raw->id || event->type != RDMABROKER_EVENT_ADDR_RESOLVED)
		return 0;
	paths_unpack(&raw->id->paths, event->paths.data, event->paths.len);
	return receive_route(raw->id);
}

/* Queues an event that the library or the program makes, and takes ownership of its text. */
static int enqueue(struct raw_event event)
{
	struct raw_event *raw = malloc(sizeof(*raw));

	if (!raw) {
		free(event.text);
		return -ENOMEM;
	}
	*raw = event;
	queue_add(event.id->session->queue, raw);
	return 0;
}

int receive_route(struct rdmabroker_id *id)
{
	id->routed = !id->wants_route;
	if (id->routed)
		return 0;
	id->stage = STAGE_ROUTE_RESOLVED;
	return enqueue((struct raw_event){ .id = id, .type = RDMABROKER_EVENT_ROUTE_RESOLVED });
}

static int enqueue_outcome(struct rdmabroker_id *id, const struct call *call,
			   const Rdmabroker__Failure *failure)
{
	struct raw_event event = {
		.id = id,
		.type = failure ? call->failure_type : RDMABROKER_EVENT_DONE,
		.call = call->name,
	};

	if (failure) {
		event.status = -(failure->error > 0 ? failure->error : EIO);
		event.retry_after_ms = failure->retry_after_ms;
		event.text = strdup(failure->text);
	}
	return enqueue(event);
}

int receive_held(struct rdmabroker *session, uint32_t handle)
{
	Rdmabroker__Frame *frame;
	int r = 0;

	while (r == 0 && (frame = queue_release(session->queue, handle)))
		r = receive_event(session, frame);
	return r;
}

static int import(struct rdmabroker *session, struct call *call,
		  const Rdmabroker__ImportIdResult *result)
{
	int r = call->import_error = idstate_new_request(
		session, result->id, (enum rdmabroker_port_space)result->port_space,
		&call->imported);

	if (r == 0) {
		call->imported->held = call->holds;
		if (result->qp_type)
			call->imported->options[IDSTATE_QP_TYPE] = (int)result->qp_type;
	}
	if (r == 0 && !call->holds)
		r = receive_held(session, result->id);
	/* -ENOMEM fails only the import, -EPROTO ends the session. */
	return r == -EPROTO ? r : 0;
}

/*
 * Whether this outcome of a destroy frees the id's number. Another id must not get the number while events of the destroyed
 * one are unread. A reply by another socket can overtake events; whoever waits for such a reply reads these events and then
 * frees the number (lifetime_give_up()). If nobody waits, the outcome comes here only when they were read (pending.c).
 */
static bool frees_number(const struct call *call)
{
	return call->effect == EFFECT_DESTROYS &&
	       !(wire_is_direct(call->of) && pending_is_waited(call));
}

int receive_outcome(struct rdmabroker *session, struct call *call, const Rdmabroker__Reply *reply)
{
	struct rdmabroker_id *id;
	int r = 0;

	if (frees_number(call))
		idtable_free(session->ids, call->handle);
	if (!reply)
		return 0;
	/* Create the imported id now, because the next packets can be its events. */
	if (call->effect == EFFECT_IMPORTS &&
	    reply->result_case == RDMABROKER__REPLY__RESULT_IMPORT_ID)
		return import(session, call, reply->import_id);
	id = call->effect == EFFECT_DESTROYS ? NULL : idtable_find(session->ids, call->handle);
	if (id && call->effect == EFFECT_CREATES && reply->failure)
		id->is_new = true;
	if (id && reply->failure)
		id->stage = STAGE_UNKNOWN;
	if (pending_is_waited(call))
		return 0;
	if (id && reply->result_case == RDMABROKER__REPLY__RESULT_ID_INFO)
		idstate_set_info(id, reply->id_info);
	/*
	 * A listener has no QP, so it needs no INIT attributes. With RDMABROKER_NONBLOCK the reply to bind_addr can
	 * come after listen was called.
	 */
	if (id && reply->init && !id->listening)
		message_get_qp_attr(&id->init, reply->init);
	if (id && (call->answer == ANSWER_AS_EVENT ||
		   (call->answer == ANSWER_FAILURE_AS_EVENT && reply->failure)))
		r = enqueue_outcome(id, call, reply->failure);
	return r;
}

/* An event that the program makes itself. It is never sent to the broker, and comes in its order among its events. */
int rdmabroker_write_event(struct rdmabroker_id *id, enum rdmabroker_event_type type, int status,
			   uint64_t arg)
{
	struct raw_event event = { .id = id, .type = type, .status = status, .arg = arg };
	struct wire *wire = &id->session->wire;
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	if (type != RDMABROKER_EVENT_USER && type != RDMABROKER_EVENT_INTERNAL)
		return fail(EINVAL, "write_event: %s cannot be written",
			    rdmabroker_event_str(type));
	wire_lock(wire);
	r = wire_check(wire);
	if (r == 0 && enqueue(event) < 0)
		r = fail(ENOMEM, "write_event: out of memory");
	wire_unlock(wire);
	return r;
}
