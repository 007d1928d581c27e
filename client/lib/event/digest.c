/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "client/lib/event/digest.h"
#include "client/lib/event/eventbuf.h"
#include "client/lib/event/rejected.h"
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/multicast.h"
#include "client/lib/id/qpstate.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"

static void fill_conn(struct eventbuf *event, const Rdmabroker__ConnParam *conn)
{
	struct rdmabroker_conn_param *p = &event->conn;
	size_t n;

	if (!conn)
		return;
	n = conn->private_data.len;
	if (n > sizeof(event->private_data) - 1)
		n = sizeof(event->private_data) - 1;
	if (n > 0) {
		/* Zeros follow, for a program that takes it for a string, as librdmacm's buffer has them. */
		memset(event->private_data, 0, sizeof(event->private_data));
		memcpy(event->private_data, conn->private_data.data, n);
		p->private_data = event->private_data;
	}
	p->private_data_len = n;
	p->responder_resources = (uint8_t)conn->responder_resources;
	p->initiator_depth = (uint8_t)conn->initiator_depth;
	p->flow_control = conn->flow_control != 0;
	p->retry_count = (uint8_t)conn->retry_count;
	p->rnr_retry_count = (uint8_t)conn->rnr_retry_count;
	p->srq = conn->srq != 0;
	p->qp_num = conn->qp_num;
}

static void learn(struct rdmabroker_id *id, const Rdmabroker__Event *in)
{
	if (in->info) {
		idstate_set_info(id, in->info);
		message_get_caps(&id->caps, in->caps);
	}
	message_get_qp_attrs(&id->init, &id->rtr, &id->rts, in->qp);
	if (in->remote_ece) {
		id->remote_ece.vendor_id = in->remote_ece->vendor_id;
		id->remote_ece.options = in->remote_ece->options;
	}
}

/*
 * If this device has ECE options, sets the QP's options to those in the peer's answer. Fails if the answer's vendor
 * id is neither this device's nor 0.
 */
static int agree_on_ece(struct rdmabroker_id *id)
{
	struct ibv_ece ece = id->remote_ece;

	if (!id->local_ece.vendor_id)
		return 0;
	if (ece.vendor_id && ece.vendor_id != id->local_ece.vendor_id)
		return fail(EINVAL, "the ECE vendor id of the peer differs from this device's");
	ece.vendor_id = id->local_ece.vendor_id;
	return qpstate_set_ece(id, &ece);
}

/* Waits at most for room in the socket. If the broker replies with a failure, the program gets CONNECT_ERROR. */
static int establish(struct rdmabroker_id *id)
{
	ID_REQUEST(request, m, Establish, ESTABLISH, establish, id);
	struct call like = {
		.name = "establish",
		.answer = ANSWER_FAILURE_AS_EVENT,
		.failure_type = RDMABROKER_EVENT_CONNECT_ERROR,
	};

	return idcall_post(id, &like, &request, id->session->wire.call_timeout_ms);
}

/*
 * The peer accepted: moves the QP to RTS, confirms the connection, and turns EVENT into ESTABLISHED, or on failure
 * CONNECT_ERROR. Without a QP that the library knows EVENT stays CONNECT_RESPONSE.
 */
static void complete_connect(struct rdmabroker_id *id, struct eventbuf *event)
{
	int r;

	if (!id->qp)
		return;
	r = agree_on_ece(id);
	if (r == 0)
		r = qpstate_to_rts(id, id->qp, -1, -1);
	if (r == 0)
		r = establish(id);
	if (r == 0) {
		event->public.type = RDMABROKER_EVENT_ESTABLISHED;
		return;
	}
	qpstate_to_error(id);
	event->public.type = RDMABROKER_EVENT_CONNECT_ERROR;
	event->public.status = r;
	eventbuf_set_text(event, rdmabroker_last_failure()->text);
}

/* The route came with ADDR_RESOLVED, and its paths are the id's. Otherwise they are in the event itself. */
static void fill_paths(struct eventbuf *event, const struct raw_event *raw)
{
	struct paths *paths = &event->paths;

	if (raw->frame) {
		const ProtobufCBinaryData *in = &raw->frame->event->paths;

		paths_unpack(paths, in->data, in->len);
	} else {
		wire_lock(&raw->id->session->wire);
		*paths = raw->id->paths;
		wire_unlock(&raw->id->session->wire);
	}
	event->public.n_paths = paths->n;
	event->public.paths = paths->n > 0 ? paths->paths : NULL;
}

struct rdmabroker_event *digest_event(struct raw_event *raw)
{
	struct eventbuf *event = eventbuf_new(raw->type);
	struct rdmabroker_event *e;
	int r;

	if (!event)
		return NULL;
	e = &event->public;
	e->id = raw->id;
	if (raw->type == RDMABROKER_EVENT_ROUTE_RESOLVED ||
	    raw->type == RDMABROKER_EVENT_CONNECT_REQUEST)
		fill_paths(event, raw);
	if (!raw->frame) {
		e->call = raw->type == RDMABROKER_EVENT_DONE ? raw->call : NULL;
		e->status = raw->status;
		e->arg = raw->arg;
		e->retry_after_ms = raw->retry_after_ms;
		eventbuf_set_text(event, raw->text);
		return e;
	}

	e->status = raw->frame->event->status;
	fill_conn(event, raw->frame->event->conn);
	if (raw->frame->event->failure) {
		eventbuf_set_text(event, raw->frame->event->failure->text);
		e->retry_after_ms = raw->frame->event->failure->retry_after_ms;
	}
	if (raw->request) {
		raw->request->context = raw->id->context;
		raw->request->ps = raw->id->ps;
		raw->request->request_responder_resources = e->conn->responder_resources;
		raw->request->request_initiator_depth = e->conn->initiator_depth;
		e->id = raw->request;
		e->listen_id = raw->id;
	}
	learn(e->id, raw->frame->event);
	e->remote_ece = e->id->remote_ece;
	if (raw->frame->event->ud) {
		message_get_ah_attr(&event->ud.ah_attr, raw->frame->event->ud->ah);
		event->ud.qp_num = raw->frame->event->ud->qp_num;
		event->ud.qkey = raw->frame->event->ud->qkey;
	}

	switch (e->type) {
	case RDMABROKER_EVENT_CONNECT_RESPONSE:
		complete_connect(e->id, event);
		break;
	case RDMABROKER_EVENT_REJECTED:
		rejected_explain(event);
		if (!rejected_is_retried(e->id, e))
			qpstate_to_error(e->id);
		break;
	case RDMABROKER_EVENT_DISCONNECTED:
		wire_lock(&e->id->session->wire);
		e->id->disconnected = true;
		wire_unlock(&e->id->session->wire);
		break;
	case RDMABROKER_EVENT_UNREACHABLE:
		if (idstate_is_datagram(e->id))
			rejected_explain_lookup(event);
		break;
	case RDMABROKER_EVENT_MULTICAST_JOIN:
	case RDMABROKER_EVENT_MULTICAST_ERROR:
		r = multicast_on_event(e->id, raw->frame->event, e);
		if (r == 0)
			break;
		e->type = RDMABROKER_EVENT_MULTICAST_ERROR;
		e->status = -r;
		eventbuf_set_text(event, "cannot attach the QP to the multicast group");
		break;
	default:
		break;
	}
	return e;
}
