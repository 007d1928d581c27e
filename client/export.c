/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/internal.h"

/* Ids that change sessions: a descriptor stands for an id, and the session that presents it gets the id. */

static int export_id(struct rdmabroker_id *id, int *ret_fd)
{
	Rdmabroker__ExportId m = RDMABROKER__EXPORT_ID__INIT;
	REQUEST(request, EXPORT_ID, export_id, &m);
	int fd = -1, r;
	struct call like = { .name = "export_id", .handle = id->handle, .ret_fd = &fd };

	m.id = id->handle;
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
	/* The importer may be another process, which cannot use the QP. */
	if (id->qp)
		return fail(EINVAL, "export_id: the id has a QP");
	return export_id(id, ret_fd);
}

/* The CONNECT_REQUEST event of an imported connection request. */
static struct event *make_request(struct rdmabroker_id *id, const Rdmabroker__ImportIdResult *in)
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
	event.init = in->init;
	event.rtr = in->rtr;
	event.rts = in->rts;
	event.remote_ece = in->remote_ece;
	event.caps = in->caps;
	frame.body_case = RDMABROKER__FRAME__BODY_EVENT;
	frame.event = &event;
	return event_digest(&raw);
}

int rdmabroker_import_id(struct rdmabroker *session, int fd, struct rdmabroker_id **ret)
{
	Rdmabroker__ImportId m = RDMABROKER__IMPORT_ID__INIT;
	REQUEST(request, IMPORT_ID, import_id, &m);
	struct call like = {
		.name = "import_id",
		.send_fd = &fd,
		.imports = true,
		.no_import = -EPROTO,
	};
	struct rdmabroker_id *id;
	Rdmabroker__Frame *frame;
	int r;

	if (fd < 0)
		return fail(EBADF, "import_id: there is no descriptor");
	r = wire_call_like(&session->wire, &like, &request, session->wire.call_timeout_ms, &frame);
	if (r < 0)
		return r;
	id = like.imported;
	if (!id) {
		frame_free(frame);
		return fail(-like.no_import, "import_id: %s",
			    like.no_import == -ENOMEM ?
				    "out of memory" :
				    "the broker's answer has no id that can be");
	}
	if (frame->reply->import_id->info)
		id_set_info(id, frame->reply->import_id->info);
	if (frame->reply->import_id->request) {
		id->request = make_request(id, frame->reply->import_id);
		if (!id->request)
			r = fail(ENOMEM, "import_id: out of memory");
		else
			id->request_responder_resources =
				id->request->public.conn.responder_resources,
			id->request_initiator_depth = id->request->public.conn.initiator_depth;
	}
	frame_free(frame);
	if (r < 0)
		rdmabroker_destroy_id(id);
	else
		*ret = id;
	return r;
}

/* The program's struct, with its QP, is kept; only the broker's id changes sessions. */
int rdmabroker_migrate_id(struct rdmabroker_id *id, struct rdmabroker *session)
{
	struct rdmabroker *from = id->session;
	struct rdmabroker_id *moved;
	int fd, r;

	r = export_id(id, &fd);
	if (r < 0)
		return r;
	r = rdmabroker_import_id(session, fd, &moved);
	close(fd);
	if (r < 0)
		return r;
	id_give_up_handle(from, session_adopt(id, moved));
	session_destroy_orphans(from);
	if (id->device)
		device_move(id->device, from, session);
	id_free(moved);
	return 0;
}
