/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "proto/status.h"

/* Converts events, and applies them to their id and its QP when the program takes them. */

void event_set_text(struct event *event, const char *text)
{
	if (!text || !*text)
		return;
	snprintf(event->text, sizeof(event->text), "%s", text);
	event->public.text = event->text;
}

static void fill_conn(struct event *event, const Rdmabroker__ConnParam *conn)
{
	struct rdmabroker_conn_param *p = &event->public.conn;
	size_t n;

	if (!conn)
		return;
	n = conn->private_data.len < sizeof(event->private_data) ? conn->private_data.len :
								   sizeof(event->private_data) - 1;
	if (n > 255)
		n = 255;
	if (n > 0) {
		memcpy(event->private_data, conn->private_data.data, n);
		p->private_data = event->private_data;
	}
	p->private_data_len = (uint8_t)n;
	p->responder_resources = (uint8_t)conn->responder_resources;
	p->initiator_depth = (uint8_t)conn->initiator_depth;
	p->flow_control = (uint8_t)conn->flow_control;
	p->retry_count = (uint8_t)conn->retry_count;
	p->rnr_retry_count = (uint8_t)conn->rnr_retry_count;
	p->srq = (uint8_t)conn->srq;
	p->qp_num = conn->qp_num;
}

/* Reject reasons of the transport: the kernel's enum ib_cm_rej_reason. */
enum {
	REJ_TIMEOUT = 4,
	REJ_NO_LISTENER = 8,
	REJ_STALE = 10,
	REJ_CONSUMER = 28,
	REJ_VENDOR_OPTION = 35,
};

/* Answers to a look-up: the kernel's enum ib_cm_sidr_status. */
enum {
	SIDR_UNSUPPORTED = 1,
	SIDR_REJECT = 2,
};

/* A reject by the peer's program or by its broker; a broker's private data is a struct refusal. */
static void explain_listener(struct event *event)
{
	struct rdmabroker_event *e = &event->public;
	struct refusal refusal;

	if (!refusal_unpack(&refusal, e->conn.private_data, e->conn.private_data_len)) {
		e->rejected_by = RDMABROKER_REJECTED_BY_PEER;
		event_set_text(event, "by the peer's program");
		return;
	}
	e->rejected_by = RDMABROKER_REJECTED_BY_POLICY;
	e->reject_code = (enum rdmabroker_reject_code)refusal.code;
	e->retry_after_ms = refusal.retry_after_ms;
	event_set_text(event, refusal.text[0] ? refusal.text : "without a reason");
}

/* A look-up that is rejected is an UNREACHABLE event, as in librdmacm, with the answer's status. */
static void explain_lookup(struct event *event)
{
	struct rdmabroker_event *e = &event->public;

	if (e->status == SIDR_REJECT) {
		explain_listener(event);
	} else if (e->status == SIDR_UNSUPPORTED) {
		e->rejected_by = RDMABROKER_REJECTED_NO_LISTENER;
		event_set_text(event, "nobody listens there");
	}
}

static void explain_reject(struct event *event)
{
	struct rdmabroker_event *e = &event->public;

	switch (e->status) {
	case REJ_CONSUMER:
		explain_listener(event);
		return;
	case REJ_VENDOR_OPTION:
		e->rejected_by = RDMABROKER_REJECTED_ECE;
		event_set_text(event, "by the peer's program, for want of common ECE options");
		return;
	case REJ_TIMEOUT:
		e->rejected_by = RDMABROKER_REJECTED_TIMEOUT;
		event_set_text(event, "the peer's connection manager waited in vain for an answer");
		return;
	case REJ_NO_LISTENER:
		e->rejected_by = RDMABROKER_REJECTED_NO_LISTENER;
		event_set_text(event, "nobody listens there");
		return;
	case REJ_STALE:
		e->rejected_by = RDMABROKER_REJECTED_STALE;
		event_set_text(event,
			       "the peer still remembers an old connection of this QP number");
		return;
	default:
		e->rejected_by = RDMABROKER_REJECTED_BY_TRANSPORT;
		snprintf(event->text, sizeof(event->text), "by the transport, reason %d",
			 e->status);
		e->text = event->text;
	}
}

static void learn(struct rdmabroker_id *id, const Rdmabroker__Event *in)
{
	if (in->info) {
		id_set_info(id, in->info);
		in_caps(&id->caps, in->caps);
	}
	if (in->init)
		in_qp_attr(&id->init, in->init);
	if (in->rtr)
		in_qp_attr(&id->rtr, in->rtr);
	if (in->rts)
		in_qp_attr(&id->rts, in->rts);
	if (in->remote_ece) {
		id->remote_ece.vendor_id = in->remote_ece->vendor_id;
		id->remote_ece.options = in->remote_ece->options;
	}
}

/* Options that the peer does not name are off. The peer's vendor id has to be ours. */
static int agree_on_ece(struct rdmabroker_id *id)
{
	struct ibv_ece ece = id->remote_ece;

	if (!id->local_ece.vendor_id)
		return 0;
	if (ece.vendor_id && ece.vendor_id != id->local_ece.vendor_id)
		return fail(EINVAL, "the peer's ECE options are another vendor's");
	ece.vendor_id = id->local_ece.vendor_id;
	return qp_set_ece(id, &ece);
}

/* The peer accepted: move a QP that the library knows, and confirm the connection. */
static void complete_connect(struct rdmabroker_id *id, struct event *event)
{
	struct rdmabroker_failure failure;
	int r;

	if (!id->qp)
		return;
	r = agree_on_ece(id);
	if (r == 0)
		r = qp_to_rts(id, -1, -1);
	if (r == 0)
		r = id_establish(id);
	if (r == 0) {
		event->public.type = RDMABROKER_EVENT_ESTABLISHED;
		return;
	}
	qp_to_error(id);
	rdmabroker_get_failure(id->session, &failure);
	event->public.type = RDMABROKER_EVENT_CONNECT_ERROR;
	event->public.status = r;
	event_set_text(event, failure.text);
}

struct event *event_digest(struct raw_event *raw)
{
	struct event *event = calloc(1, sizeof(*event));
	struct rdmabroker_event *e;

	if (!event)
		return NULL;
	e = &event->public;
	e->type = raw->type;
	e->id = raw->id;
	if (!raw->frame) {
		e->call = raw->type == RDMABROKER_EVENT_DONE ? raw->call : NULL;
		e->status = raw->status;
		event_set_text(event, raw->text);
		return event;
	}

	e->status = raw->frame->event->status;
	fill_conn(event, raw->frame->event->conn);
	if (raw->frame->event->failure) {
		event_set_text(event, raw->frame->event->failure->text);
		e->retry_after_ms = raw->frame->event->failure->retry_after_ms;
	}
	if (raw->request) {
		raw->request->context = raw->id->context;
		raw->request->ps = raw->id->ps;
		raw->request->request_responder_resources = e->conn.responder_resources;
		raw->request->request_initiator_depth = e->conn.initiator_depth;
		e->id = raw->request;
		e->listen_id = raw->id;
	}
	learn(e->id, raw->frame->event);
	e->remote_ece = e->id->remote_ece;
	if (raw->frame->event->ud) {
		in_ah_attr(&e->ud.ah_attr, raw->frame->event->ud->ah);
		e->ud.qp_num = raw->frame->event->ud->qp_num;
		e->ud.qkey = raw->frame->event->ud->qkey;
	}

	switch (e->type) {
	case RDMABROKER_EVENT_CONNECT_RESPONSE:
		complete_connect(e->id, event);
		break;
	case RDMABROKER_EVENT_REJECTED:
		explain_reject(event);
		if (!renews_after(e->id, e))
			qp_to_error(e->id);
		break;
	case RDMABROKER_EVENT_DISCONNECTED:
		wire_lock(&e->id->session->wire);
		e->id->disconnected = true;
		wire_unlock(&e->id->session->wire);
		break;
	case RDMABROKER_EVENT_UNREACHABLE:
		if (id_is_datagram(e->id))
			explain_lookup(event);
		break;
	case RDMABROKER_EVENT_MULTICAST_JOIN:
	case RDMABROKER_EVENT_MULTICAST_ERROR:
		join_on_event(e->id, raw->frame->event, event);
		break;
	default:
		break;
	}
	return event;
}

struct rdmabroker_event *rdmabroker_free_event(struct rdmabroker_event *event)
{
	/* The public struct is the first member of struct event. */
	free(event);
	return NULL;
}

const char *rdmabroker_event_str(enum rdmabroker_event_type type)
{
	switch (type) {
#define CASE(name)                    \
	case RDMABROKER_EVENT_##name: \
		return "RDMABROKER_EVENT_" #name
		CASE(ADDR_RESOLVED);
		CASE(ADDR_ERROR);
		CASE(ROUTE_RESOLVED);
		CASE(ROUTE_ERROR);
		CASE(CONNECT_REQUEST);
		CASE(CONNECT_RESPONSE);
		CASE(CONNECT_ERROR);
		CASE(UNREACHABLE);
		CASE(REJECTED);
		CASE(ESTABLISHED);
		CASE(DISCONNECTED);
		CASE(DEVICE_REMOVAL);
		CASE(MULTICAST_JOIN);
		CASE(MULTICAST_ERROR);
		CASE(ADDR_CHANGE);
		CASE(TIMEWAIT_EXIT);
		CASE(DONE);
		CASE(LOST);
#undef CASE
	}
	return "unknown event";
}
