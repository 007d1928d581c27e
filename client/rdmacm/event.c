/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

/* The functions up to digest() apply an event to its id, and fill in the program's event. The channel is locked. */

static void fill_param(struct cm_event *event, bool is_datagram)
{
	const struct rdmabroker_event *e = event->event;

	if (is_datagram)
		event->public.param.ud = (struct rdma_ud_param){
			.private_data = e->conn->private_data,
			.private_data_len = e->conn->private_data_len,
			.ah_attr = e->ud->ah_attr,
			.qp_num = e->ud->qp_num,
			.qkey = e->ud->qkey,
		};
	else
		event->public.param.conn = (struct rdma_conn_param){
			.private_data = e->conn->private_data,
			.private_data_len = e->conn->private_data_len,
			.responder_resources = e->conn->responder_resources,
			.initiator_depth = e->conn->initiator_depth,
			.flow_control = e->conn->flow_control,
			.retry_count = e->conn->retry_count,
			.rnr_retry_count = e->conn->rnr_retry_count,
			.srq = e->conn->srq,
			.qp_num = e->conn->qp_num,
		};
}

static void set_outcome(struct cm_event *event, int r, enum rdma_cm_event_type good,
			enum rdma_cm_event_type bad)
{
	event->public.status = r;
	event->public.event = r < 0 ? bad : good;
}

/* False: the id could not be created; the request is rejected, and the program gets no event. */
static bool on_request(struct cm_event *event)
{
	struct id *listener = event->id, *id;
	int r;

	id = id_new_request(listener, event->event->id);
	if (!id) {
		BROKER(rdmabroker_destroy_id_wait(event->event->id, RDMABROKER_TIMEOUT_DEFAULT));
		return false;
	}
	event->public.id = &id->public;
	event->public.listen_id = &listener->public;
	id->responder_resources = event->event->conn->responder_resources;
	id->initiator_depth = event->event->conn->initiator_depth;
	id->remote_ece = event->event->remote_ece;
	r = id_learn(id);
	if (r < 0) {
		report_result("connection request", r);
		id_discard(id);
		return false;
	}
	route_learn_paths(id, event->event);
	return true;
}

static void on_response(struct cm_event *event)
{
	struct id *id = event->id;
	int r;

	if (!id->public.qp) {
		id->remote_ece = event->event->remote_ece;
		return;
	}
	r = qp_on_response(id, &event->event->remote_ece);
	set_outcome(event, r, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_CONNECT_ERROR);
	id->connect_error = r < 0;
}

/* False: the group was left meanwhile, and the program gets no event. */
static bool on_join(struct cm_event *event)
{
	struct join *join = event->event->join_context;
	int r;

	if (!join)
		return false;
	event->join = join;
	if (event->public.event == RDMA_CM_EVENT_MULTICAST_JOIN) {
		r = join_attach(join, event->id, event->event->ud);
		set_outcome(event, r, RDMA_CM_EVENT_MULTICAST_JOIN, RDMA_CM_EVENT_MULTICAST_ERROR);
	}
	event->public.param.ud.private_data = join->context;
	event->public.param.ud.private_data_len = 0;
	return true;
}

/*
 * A call failed after it returned: the program gets the event by which librdmacm reports such a failure. A failed
 * disconnect has no such event, so the program gets DISCONNECTED.
 */
static void on_failure(struct cm_event *event)
{
	static const struct {
		const char *call;
		enum rdma_cm_event_type type;
	} failures[] = {
		{ "resolve_addr", RDMA_CM_EVENT_ADDR_ERROR },
		{ "resolve_route", RDMA_CM_EVENT_ROUTE_ERROR },
		{ "connect", RDMA_CM_EVENT_CONNECT_ERROR },
		{ "accept", RDMA_CM_EVENT_CONNECT_ERROR },
		{ "establish", RDMA_CM_EVENT_CONNECT_ERROR },
		{ "disconnect", RDMA_CM_EVENT_DISCONNECTED },
	};
	struct id *id = event->id;

	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
		if (strcmp(event->event->call, failures[i].call) == 0)
			event->public.event = failures[i].type;
	/* After ESTABLISHED the program expects DISCONNECTED. */
	if (event->public.event == RDMA_CM_EVENT_CONNECT_ERROR && id->connected)
		event->public.event = RDMA_CM_EVENT_DISCONNECTED;
	if (event->public.event == RDMA_CM_EVENT_CONNECT_ERROR)
		qp_to_error(id);
	if (event->public.event == RDMA_CM_EVENT_DISCONNECTED)
		id->connected = false;
}

/* The outcome of rdma_connect() or rdma_accept(), or the end of the connection. */
static bool is_outcome(enum rdma_cm_event_type type)
{
	return type >= RDMA_CM_EVENT_CONNECT_RESPONSE && type <= RDMA_CM_EVENT_DISCONNECTED;
}

/* False: the program does not get the event. */
static bool digest(struct cm_event *event)
{
	struct id *id = event->id;
	int r;

	if (is_outcome(event->public.event))
		id->offers_qp = false;
	switch ((int)event->event->type) {
	case RDMABROKER_EVENT_DONE:
		on_failure(event);
		return true;
	case RDMABROKER_EVENT_USER:
		/* In older headers the union does not have it. */
		memcpy(&event->public.param, &event->event->arg, sizeof(event->event->arg));
		return true;
	case RDMABROKER_EVENT_INTERNAL:
		event->public.event = (enum rdma_cm_event_type)EVENT_ADDRINFO_RESOLVED;
		return true;
	default:
		break;
	}
	fill_param(event, id_is_datagram(id) ||
				  event->public.event == RDMA_CM_EVENT_MULTICAST_JOIN ||
				  event->public.event == RDMA_CM_EVENT_MULTICAST_ERROR);
	switch (event->public.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		r = id_learn(id);
		set_outcome(event, r == 0 && !id->device ? -ENODEV : r, RDMA_CM_EVENT_ADDR_RESOLVED,
			    RDMA_CM_EVENT_ADDR_ERROR);
		return true;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		route_learn_paths(id, event->event);
		return true;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return on_request(event);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		on_response(event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		if (id->connect_error)
			return false;
		qp_to_error(id);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		id->connected = false;
		return !id->connect_error;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		return on_join(event);
	default:
		break;
	}
	if (event->public.event == RDMA_CM_EVENT_ESTABLISHED)
		id->connected = !id_is_datagram(id);
	return true;
}

/*
 * The channel is locked. Once for each id with a device, returns an event: DISCONNECTED if the id was connected, else
 * DEVICE_REMOVAL. Then, and for a sync id at once, returns -ECONNRESET.
 */
static int take_lost(struct channel *channel, struct cm_event *event)
{
	struct id *id;

	LIST_FOREACH(id, &channel->ids, link)
		if (id->device && !id->told_lost)
			break;
	if (!id || channel->sync)
		return -ECONNRESET;
	*event = (struct cm_event){ .id = id };
	id->told_lost = true;
	event->public.id = &id->public;
	event->public.event = id->connected ? RDMA_CM_EVENT_DISCONNECTED :
					      RDMA_CM_EVENT_DEVICE_REMOVAL;
	id->connected = false;
	id_count_event(event);
	return 0;
}

static int take(struct channel *channel, struct cm_event *event)
{
	struct rdmabroker_event *e;
	int r;

	for (;;) {
		if (channel->lost)
			return take_lost(channel, event);
		r = BROKER(rdmabroker_get_event(channel->session.broker, /* timeout_ms= */ 0, &e));
		if (r < 0 && r != -ECONNRESET)
			return r;
		if (r < 0 || e->type == RDMABROKER_EVENT_LOST) {
			report_debug("the broker is gone");
			channel->lost = true;
			if (r == 0)
				rdmabroker_free_event(e);
			continue;
		}
		*event = (struct cm_event){ .event = e };
		event->id = rdmabroker_get_context(e->listen_id ? e->listen_id : e->id);
		event->public.id = &event->id->public;
		event->public.event = (enum rdma_cm_event_type)e->type;
		event->public.status = e->status;
		report_event(e);
		if (digest(event)) {
			id_count_event(event);
			return 0;
		}
		rdmabroker_free_event(e);
	}
}

static int take_or_wait(struct channel *channel, struct cm_event *event)
{
	int r;

	channel_enter(channel);
	for (;;) {
		r = channel->lost ? 0 : channel_wait(channel);
		if (r < 0)
			break;
		r = take(channel, event);
		/* -EAGAIN: there was one that the program does not get, or another thread has taken it. */
		if (r != -EAGAIN)
			break;
	}
	channel_leave(channel);
	return r;
}

/*
 * Makes the id of a connection request sync if the listener is sync. False: that failed, and the request was
 * rejected.
 */
static bool finish_request(struct cm_event *event)
{
	struct id *id = to_id(event->public.id);

	if (event->public.event != RDMA_CM_EVENT_CONNECT_REQUEST || !event->id->sync)
		return true;
	if (id_migrate(id, NULL) == 0)
		return true;
	id_destroy(id);
	id_settle_event(event);
	return false;
}

static int get_event(struct channel *channel, struct rdma_cm_event **ret)
{
	struct cm_event taken, *new;
	int r;

	do {
		memset(&taken, 0, sizeof(taken));
		/* On the stack, so that nothing leaks if the thread is cancelled while it waits. */
		r = take_or_wait(channel, &taken);
		if (r < 0)
			return fail(-r);
	} while (!finish_request(&taken));
	new = malloc(sizeof(*new));
	if (!new) {
		id_settle_event(&taken);
		return fail(ENOMEM);
	}
	*new = taken;
	*ret = &new->public;
	return 0;
}

int event_await_outcome(struct id *id)
{
	struct rdma_cm_event *event;

	if (!id->sync)
		return 0;
	id_ack_own_event(id);
	if (get_event(to_channel(id->public.channel), &event) < 0)
		return -1;
	id->public.event = event;
	if (event->status == 0)
		return 0;
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return fail(ECONNREFUSED);
	return fail(event->status < 0 ? -event->status : event->status);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	FORWARD(rdma_get_cm_event, channel, event);
	if (!event)
		return fail(EINVAL);
	return get_event(to_channel(channel), event);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	FORWARD(rdma_ack_cm_event, event);
	if (!event)
		return fail(EINVAL);
	id_ack_event(event);
	return 0;
}
