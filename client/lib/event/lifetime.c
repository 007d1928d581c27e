/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/event/lifetime.h"
#include "client/lib/event/queue.h"
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/idtable.h"
#include "client/lib/id/multicast.h"
#include "client/lib/id/opendevice.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pending.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/sessionparts.h"

/*
 * Sends a request only for its reply, which implies that all earlier requests were processed. Waits for the reply only
 * if it comes by another socket.
 */
static int ask_for_an_answer(struct rdmabroker *session, bool wait)
{
	REQUEST(request, m, ListDevices, LIST_DEVICES, list_devices);
	struct call like = {
		.name = "list_devices",
		.answer = ANSWER_DROPPED,
		.must_reply = true,
	};

	if (wire_is_direct(&session->wire))
		return call_wait(&session->wire, like.name, &request);
	return call_post(&session->wire, &like, &request, wait ? session->wire.call_timeout_ms : 0);
}

/*
 * Gives ID a free number. A destroyed id keeps its number until a later reply implies that the broker has processed
 * destroy_id. If only numbers of destroyed ids are left, requests a reply and waits for a free number; with
 * RDMABROKER_NONBLOCK only receives the packets that have arrived.
 */
static int choose_handle(struct rdmabroker *session, struct rdmabroker_id *id)
{
	bool wait = !(session->flags & RDMABROKER_NONBLOCK), is_full;
	int64_t deadline = deadline_after(wait ? session->wire.call_timeout_ms : 0);
	int r = wire_check_process(&session->wire);

	if (r < 0)
		return r;
	wire_lock(&session->wire);
	/* An id of a session that is lost could only be destroyed. */
	r = wire_check(&session->wire);
	if (r == 0)
		r = idtable_add(session->ids, id, &id->handle);
	is_full = r == -EDQUOT && idtable_has_dying(session->ids);
	wire_unlock(&session->wire);
	if (!is_full)
		return r;
	r = ask_for_an_answer(session, wait);
	if (r < 0)
		return r;
	wire_lock(&session->wire);
	pump_catch_up(&session->wire);
	do
		r = idtable_add(session->ids, id, &id->handle);
	while (r == -EDQUOT && idtable_has_dying(session->ids) && !wire_is_direct(&session->wire) &&
	       pump_packet(&session->wire, deadline) == 0 &&
	       !pump_is_past(deadline, /* looked= */ false));
	wire_unlock(&session->wire);
	return r;
}

/*
 * Drops the events of ID that were not taken, and the outcomes of calls that no thread waits for. Destroys the ids of
 * connection requests among the events. The lock has to be held; it is released during waits and while an id is
 * destroyed.
 */
static void forget_events(struct rdmabroker_id *id)
{
	struct raw_events events = TAILQ_HEAD_INITIALIZER(events);
	struct rdmabroker *session = id->session;

	while (id->n_digesting > 0)
		wire_wait(&session->wire);
	while (id->n_queued > 0) {
		queue_collect(session->queue, id, NULL, NULL, &events);
		queue_free_events(&events);
		lifetime_end_orphans(session);
	}
	pending_silence_handle(&session->wire, id->handle);
}

int lifetime_create(struct rdmabroker_id *id)
{
	struct rdmabroker *session = id->session;
	int r;

	if (id->ps != RDMABROKER_PS_IPOIB && id->ps != RDMABROKER_PS_TCP &&
	    id->ps != RDMABROKER_PS_UDP && id->ps != RDMABROKER_PS_IB)
		return fail(EINVAL, "create_id: unknown port space 0x%x", id->ps);
	id->handle = 0;
	id->disconnected = false;
	id->stage = STAGE_NEW;
	r = choose_handle(session, id);
	if (r == -EDQUOT)
		return fail(EDQUOT, "create_id: the session has reached its limit of %u ids",
			    session->ids->max);
	if (r == -ENOMEM)
		return fail(ENOMEM, "create_id: out of memory");
	if (r < 0)
		return r;

	id->is_new = true;
	return 0;
}

/* With RDMABROKER_NONBLOCK: creates the id in the broker. A DONE event reports the outcome. */
static int create_now(struct rdmabroker_id *id)
{
	ID_REQUEST(request, m, CreateId, CREATE_ID, create_id, id);
	int r;

	m.port_space = id->ps;
	id->is_new = false;
	r = idcall_do(id, "create_id", &request, ANSWER_AS_EVENT, NULL);
	/* It was not sent, so there is nothing to destroy in the broker. */
	id->is_new = r < 0;
	if (r < 0)
		lifetime_give_up(id, 0);
	return r;
}

int rdmabroker_create_id(struct rdmabroker *session, enum rdmabroker_port_space ps, void *context,
			 struct rdmabroker_id **ret)
{
	struct rdmabroker_id *id = idstate_new(session, ps);
	int r;

	if (!id)
		return fail(ENOMEM, "create_id: out of memory");
	id->context = context;
	r = lifetime_create(id);
	if (r == 0 && session->flags & RDMABROKER_NONBLOCK)
		r = create_now(id);
	if (r < 0)
		free(id);
	else
		*ret = id;
	return r;
}

void lifetime_give_up_handle(struct rdmabroker *session, uint32_t handle)
{
	REQUEST(request, m, DestroyId, DESTROY_ID, destroy_id);
	struct call like = {
		.name = "destroy_id",
		.handle = handle,
		.answer = ANSWER_DROPPED,
		.effect = EFFECT_DESTROYS,
	};

	m.id = handle;
	if (call_post(&session->wire, &like, &request, session->wire.call_timeout_ms) != -ETIMEDOUT)
		return;
	/* The broker does not read: give up the session, so that the broker destroys its ids. */
	wire_lock(&session->wire);
	wire_die(&session->wire, -ETIMEDOUT);
	wire_wake(&session->wire);
	wire_unlock(&session->wire);
}

void lifetime_end_orphans(struct rdmabroker *session)
{
	struct raw_event *raw;

	while ((raw = queue_take_orphan(session->queue))) {
		wire_unlock(&session->wire);
		rdmabroker_destroy_id(raw->request);
		queue_free_event(raw);
		wire_lock(&session->wire);
	}
}

int lifetime_give_up(struct rdmabroker_id *id, int timeout_ms)
{
	struct rdmabroker *session = id->session;
	REQUEST(request, m, DestroyId, DESTROY_ID, destroy_id);
	struct call like = { .name = "destroy_id", .effect = EFFECT_DESTROYS };
	bool is_new;
	int r;

	if (id->handle == 0)
		return 0;
	wire_lock(&session->wire);
	/*
	 * Receive the connection requests that are still in the socket, so that they are rejected now, and not at
	 * some later call.
	 */
	if (id->listening)
		pump_drain(&session->wire);
	forget_events(id);
	is_new = id->is_new;
	if (is_new)
		idtable_free(session->ids, id->handle);
	else
		idtable_set_dying(session->ids, id->handle);
	wire_unlock(&session->wire);
	if (is_new) {
		id->handle = 0;
		id->is_new = false;
		return 0;
	}
	m.id = like.handle = id->handle;
	id->handle = 0;
	/*
	 * Connection requests can come before the reply to destroy_id, and lifetime_end_orphans() rejects them below.
	 * So for a listener wait for the reply even if TIMEOUT_MS is 0, but not with RDMABROKER_NONBLOCK.
	 */
	if (timeout_ms == 0 && id->listening && !(session->flags & RDMABROKER_NONBLOCK))
		timeout_ms = session->wire.call_timeout_ms;
	if (timeout_ms == 0) {
		lifetime_give_up_handle(session, m.id);
		return 0;
	}
	r = call_wait_like(&session->wire, &like, &request, timeout_ms, NULL);
	wire_lock(&session->wire);
	if (wire_is_direct(&session->wire)) {
		/* Its events that are still in the socket are dropped, so its number is free, unless no reply has come. */
		pump_catch_up(&session->wire);
		if (r != -ETIMEDOUT)
			idtable_free(session->ids, like.handle);
	}
	lifetime_end_orphans(session);
	wire_unlock(&session->wire);
	return r;
}

void lifetime_free(struct rdmabroker_id *id)
{
	multicast_free_all(id);
	rdmabroker_destroy_qp(id);
	if (id->device)
		opendevice_put(id->session, id->device);
	rdmabroker_free_event(id->reject);
	rdmabroker_free_event(id->response);
	rdmabroker_free_event(id->request);
	free(id);
}

void lifetime_free_all(struct rdmabroker *session)
{
	struct rdmabroker_id *id;
	uint32_t pos = 0;

	while ((id = idtable_next(session->ids, &pos)))
		lifetime_free(id);
}

static int destroy_id(struct rdmabroker_id *id, int timeout_ms)
{
	int r;

	if (!id)
		return 0;
	/* In a child process the id belongs to the parent, and even its struct is not freed. */
	r = wire_check_process(&id->session->wire);
	if (r < 0)
		return r;
	r = lifetime_give_up(id, timeout_ms);
	lifetime_free(id);
	return r;
}

struct rdmabroker_id *rdmabroker_destroy_id(struct rdmabroker_id *id)
{
	struct failure_copy copy;

	fail_save(&copy);
	destroy_id(id, 0);
	fail_restore(&copy);
	return NULL;
}

int rdmabroker_destroy_id_wait(struct rdmabroker_id *id, int timeout_ms)
{
	return destroy_id(id, timeout_ms > 0 ? timeout_ms : 1);
}
