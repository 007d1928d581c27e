/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <unistd.h>

#include "client/lib/event/digest.h"
#include "client/lib/event/lifetime.h"
#include "client/lib/event/queue.h"
#include "client/lib/event/receive.h"
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/idtable.h"
#include "client/lib/id/opendevice.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/sessionparts.h"

/*
 * Moves ids between sessions: an exported id has a descriptor, and the session that sends the descriptor to the
 * broker gets the id.
 */

static int export_id(struct rdmabroker_id *id, int *ret_fd)
{
	ID_REQUEST(request, m, ExportId, EXPORT_ID, export_id, id);
	int fd = -1, r;
	struct call like = { .name = "export_id", .ret_fd = &fd };

	r = idcall_wait_like(id, &like, &request, id->session->wire.call_timeout_ms, NULL);
	if (r == 0 && fd < 0)
		return fail(EPROTO, "export_id: the broker sent no descriptor");
	if (r < 0 && fd >= 0)
		close(fd);
	if (r == 0)
		*ret_fd = fd;
	return r;
}

int rdmabroker_export_id(struct rdmabroker_id *id, int *ret_fd)
{
	/* A process that imports the id could not use the QP. */
	if (id->qp)
		return fail(EINVAL, "export_id: the id has a QP");
	return export_id(id, ret_fd);
}

/* Makes the CONNECT_REQUEST event of an imported connection request. */
static struct rdmabroker_event *make_request(struct rdmabroker_id *id,
					     const Rdmabroker__ImportIdResult *in)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	struct raw_event raw = {
		.frame = &frame,
		.id = id,
		.type = RDMABROKER_EVENT_CONNECT_REQUEST,
	};

	event.info = in->info;
	event.conn = in->conn;
	event.qp = in->qp;
	event.remote_ece = in->remote_ece;
	event.caps = in->caps;
	event.paths = in->paths;
	frame.body_case = RDMABROKER__FRAME__BODY_EVENT;
	frame.event = &event;
	return digest_event(&raw);
}

/* What is held after the last import is of ids that were destroyed. */
static void count_importing(struct rdmabroker *session, int n)
{
	struct queue *queue = session->queue;
	Rdmabroker__Frame *frame;

	wire_lock(&session->wire);
	queue->n_importing += (unsigned)n;
	while (queue->n_importing == 0 && (frame = queue_release(queue, 0)))
		frame_free(frame);
	wire_unlock(&session->wire);
}

/* HOLDS: the id's events are held until adopt(). */
static int import_id(struct rdmabroker *session, int fd, bool holds, struct rdmabroker_id **ret)
{
	REQUEST(request, m, ImportId, IMPORT_ID, import_id);
	struct call like = {
		.name = "import_id",
		.send_fd = &fd,
		.effect = EFFECT_IMPORTS,
		.holds = holds,
		.import_error = -EPROTO,
	};
	struct rdmabroker_id *id;
	Rdmabroker__Frame *frame;
	int r;

	if (fd < 0)
		return fail(EBADF, "import_id: fd is negative");
	count_importing(session, 1);
	r = call_wait_like(&session->wire, &like, &request, session->wire.call_timeout_ms, &frame);
	count_importing(session, -1);
	if (r < 0)
		return r;
	id = like.imported;
	if (!id) {
		frame_free(frame);
		return fail(-like.import_error, "import_id: %s",
			    like.import_error == -ENOMEM ? "out of memory" :
							   "the broker's reply has no valid id");
	}
	if (frame->reply->import_id->info)
		idstate_set_info(id, frame->reply->import_id->info);
	if (frame->reply->import_id->request) {
		id->request = make_request(id, frame->reply->import_id);
		if (!id->request)
			r = fail(ENOMEM, "import_id: out of memory");
	}
	if (id->request) {
		id->request_responder_resources = id->request->conn->responder_resources;
		id->request_initiator_depth = id->request->conn->initiator_depth;
	}
	frame_free(frame);
	if (r < 0)
		rdmabroker_destroy_id(id);
	else
		*ret = id;
	return r;
}

int rdmabroker_import_id(struct rdmabroker *session, int fd, struct rdmabroker_id **ret)
{
	return import_id(session, fd, /* holds= */ false, ret);
}

/*
 * MOVED was made by the import of ID. ID takes over MOVED's number and session, with the queued events of both. Only
 * connection requests stay in the old queue, as orphans. Returns ID's old number, which the caller has to destroy in
 * the broker.
 */
static uint32_t adopt(struct rdmabroker_id *id, struct rdmabroker_id *moved)
{
	struct raw_events events = TAILQ_HEAD_INITIALIZER(events);
	struct rdmabroker *session = id->session;
	uint32_t handle = id->handle;
	struct raw_event *raw;
	int r;

	wire_lock(&session->wire);
	while (id->n_digesting > 0)
		wire_wait(&session->wire);
	/* Events that are still in the socket have to be moved too. */
	if (wire_is_direct(&session->wire))
		pump_catch_up(&session->wire);
	else
		pump_drain(&session->wire);
	queue_collect(session->queue, id, NULL, NULL, &events);
	idtable_set_dying(session->ids, handle);
	wire_unlock(&session->wire);

	session = moved->session;
	wire_lock(&session->wire);
	idtable_replace(session->ids, moved->handle, id);
	id->session = session;
	id->handle = moved->handle;
	moved->handle = 0;
	while ((raw = TAILQ_FIRST(&events))) {
		TAILQ_REMOVE(&events, raw, link);
		raw->id = id;
		queue_add(session->queue, raw);
	}
	r = receive_held(session, id->handle);
	if (r < 0)
		wire_die(&session->wire, r);
	wire_unlock(&session->wire);
	return handle;
}

/*
 * Destroys what is left of the moved id in the broker's old session FROM. If replies come by another socket, does that
 * first: the reply says how many events were sent before.
 */
static void leave(struct rdmabroker *from, struct rdmabroker_id *id, struct rdmabroker_id *moved)
{
	REQUEST(request, m, DestroyId, DESTROY_ID, destroy_id);
	struct call like = { .name = "migrate_id" };
	uint32_t handle = id->handle;

	if (!wire_is_direct(&from->wire)) {
		lifetime_give_up_handle(from, adopt(id, moved));
		return;
	}
	m.id = handle;
	call_wait_like(&from->wire, &like, &request, from->wire.call_timeout_ms, NULL);
	adopt(id, moved);
	wire_lock(&from->wire);
	idtable_free(from->ids, handle);
	wire_unlock(&from->wire);
}

/* Only the broker's id changes sessions: the program's struct is kept, with its QP. */
int rdmabroker_migrate_id(struct rdmabroker_id *id, struct rdmabroker *session)
{
	struct rdmabroker *from = id->session;
	struct rdmabroker_id *moved;
	int fd, r;

	r = export_id(id, &fd);
	if (r < 0)
		return r;
	count_importing(session, 1);
	r = import_id(session, fd, /* holds= */ true, &moved);
	close(fd);
	if (r == 0)
		leave(from, id, moved);
	count_importing(session, -1);
	if (r < 0)
		return r;
	wire_lock(&from->wire);
	lifetime_end_orphans(from);
	wire_unlock(&from->wire);
	if (id->device)
		opendevice_move(id->device, from, session);
	lifetime_free(moved);
	return 0;
}
