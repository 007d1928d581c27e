/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/admit/decide.h"
#include "core/admit/notify.h"
#include "core/admit/rule_settings.h"
#include "core/object/timewait.h"
#include "core/rule/dispatch.h"
#include "core/verbs/group.h"
#include "core/verbs/id_life.h"
#include "core/verbs/listen.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/resolve_route.h"
#include "util/log.h"
#include "util/util.h"

/* The state changes that events cause. */
static const struct {
	enum rdma_cm_event_type event;
	unsigned from;
	enum id_state to;
} moves[] = {
	{ RDMA_CM_EVENT_ADDR_RESOLVED, IN(ID_ADDR_QUERY), ID_ADDR_RESOLVED },
	{ RDMA_CM_EVENT_ADDR_ERROR, IN(ID_ADDR_QUERY), ID_BOUND },
	{ RDMA_CM_EVENT_ROUTE_RESOLVED, IN(ID_ROUTE_QUERY), ID_ROUTE_RESOLVED },
	{ RDMA_CM_EVENT_ROUTE_ERROR, IN(ID_ROUTE_QUERY), ID_ADDR_RESOLVED },
	{ RDMA_CM_EVENT_CONNECT_RESPONSE, IN(ID_CONNECTING), ID_RESPONDED },
	{ RDMA_CM_EVENT_ESTABLISHED, IN(ID_ACCEPTED) | IN(ID_CONNECTING) | IN(ID_RESPONDED),
	  ID_ESTABLISHED },
	{ RDMA_CM_EVENT_REJECTED, IN(ID_CONNECTING) | IN(ID_RESPONDED) | IN(ID_ACCEPTED),
	  ID_FAILED },
	{ RDMA_CM_EVENT_UNREACHABLE, IN(ID_CONNECTING) | IN(ID_RESPONDED) | IN(ID_ACCEPTED),
	  ID_FAILED },
	{ RDMA_CM_EVENT_CONNECT_ERROR,
	  IN(ID_CONNECTING) | IN(ID_RESPONDED) | IN(ID_ACCEPTED) | IN(ID_REQUEST), ID_FAILED },
	{ RDMA_CM_EVENT_DISCONNECTED,
	  IN(ID_ESTABLISHED) | IN(ID_DISCONNECTING) | IN(ID_ACCEPTED) | IN(ID_RESPONDED),
	  ID_DISCONNECTED },
	{ RDMA_CM_EVENT_DEVICE_REMOVAL, ~(IN(ID_MOVED) | IN(ID_REVOKED)), ID_REMOVED },
};

static bool change_state(struct id *id, enum rdma_cm_event_type type)
{
	for (size_t i = 0; i < ELEMENTS_OF(moves); i++)
		if (moves[i].event == type && (moves[i].from & IN(id->state))) {
			id_set_state(id, moves[i].to);
			return true;
		}
	return false;
}

static void handle(struct id *id, struct fabric_event *event)
{
	struct session_event out = {
		.fabric = event,
		.type = event->type,
		.status = event->status,
	};
	struct policy_verdict verdict;
	struct failure failure;
	bool moved, asked;
	int r = 0;

	if (event->type == RDMA_CM_EVENT_ADDR_ERROR && resolve_again(id, event->status))
		return;

	if (event->type == RDMA_CM_EVENT_ADDR_RESOLVED && resolve_asks(id))
		return;

	/*
	 * The kernel reports the end of the time wait after the end of the connection. So if the state has missed the
	 * end, a previous process of the daemon has read that event, and died before it could tell the client.
	 */
	if (event->type == RDMA_CM_EVENT_TIMEWAIT_EXIT && !id_is_datagram(id) &&
	    (id->state == ID_ESTABLISHED || id->state == ID_DISCONNECTING))
		out.type = event->type = RDMA_CM_EVENT_DISCONNECTED;

	/* The kernel reports these once. So the client was told when the id was restored, see restore.c. */
	if ((event->type == RDMA_CM_EVENT_DISCONNECTED && id->state == ID_DISCONNECTED) ||
	    (event->type == RDMA_CM_EVENT_ESTABLISHED && id->state == ID_ESTABLISHED &&
	     !id_is_datagram(id)))
		return;

	asked = id->state == ID_DISCONNECTING;
	moved = change_state(id, event->type);
	/* Reply to the peer's disconnect here, so that the reply does not depend on the client, unless the client confirms. */
	if (event->type == RDMA_CM_EVENT_DISCONNECTED && !asked && !id->handshake.unconfirmed)
		fabric_id_disconnect(id->fabric);
	if (!moved && event->type != RDMA_CM_EVENT_TIMEWAIT_EXIT &&
	    event->type != RDMA_CM_EVENT_ADDR_CHANGE)
		log_debug("Session %llu, id %u: the event %s has no effect on an id that is %s.",
			  (unsigned long long)id->session->number, id->handle,
			  rdma_event_str(event->type), id_state_to_string(id->state));

	if (event->type == RDMA_CM_EVENT_TIMEWAIT_EXIT)
		timewait_exit(id);
	if (event->join)
		out.group = group_addr(event->join);

	/* Only events that changed the id's state need one of these steps. Others are only passed on. */
	if (moved && event->type == RDMA_CM_EVENT_ADDR_RESOLVED) {
		r = decide_connect(id, /* early= */ false, NULL, NULL, &verdict, &failure);
		if (r == 0)
			r = rule_settings_admit(id, &verdict, &failure);
		if (r == 0 && resolve_route_on_address(id))
			return;
		if (r == 0)
			r = rule_settings_get_qp_attr(id, IBV_QPS_INIT, &out.init, &failure);
		out.caps = rule_settings_get_caps(id);
		out.with_info = true;
	} else if (moved && (event->type == RDMA_CM_EVENT_ROUTE_RESOLVED ||
			     event->type == RDMA_CM_EVENT_ROUTE_ERROR)) {
		out.quiet = resolve_route_on_result(id);
		out.failure = resolve_explain(id, event->status, &failure);
	} else if (moved && event->type == RDMA_CM_EVENT_ADDR_ERROR && resolve_route_fails(id)) {
		out.type = RDMA_CM_EVENT_ROUTE_ERROR;
	} else if (moved && event->type == RDMA_CM_EVENT_ADDR_ERROR) {
		out.failure = resolve_explain(id, event->status, &failure);
	} else if (moved && event->type == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		r = rule_settings_fill_attrs(id, &out, &failure);
	}

	/*
	 * The broker's part of the step has failed: send the client the event by which the kernel reports that
	 * the step has failed.
	 */
	if (r != 0) {
		bool resolving = event->type == RDMA_CM_EVENT_ADDR_RESOLVED;

		id_set_state(id, resolving ? ID_BOUND : ID_FAILED);
		out.type = !resolving              ? RDMA_CM_EVENT_CONNECT_ERROR :
			   resolve_route_fails(id) ? RDMA_CM_EVENT_ROUTE_ERROR :
						     RDMA_CM_EVENT_ADDR_ERROR;
		out.status = r < 0 ? r : -failure.error;
		out.failure = r < 0 ? NULL : &failure;
	}
	notify_event(id, &out);
	/*
	 * If the client requested the disconnect before the connection existed, the kernel has ignored the
	 * request. Then this event is not the peer's reply, but the peer's disconnect, which needs a reply. If
	 * the event is the peer's reply, this call has no effect.
	 */
	if (event->type == RDMA_CM_EVENT_DISCONNECTED && asked)
		fabric_id_disconnect(id->fabric);
	resolve_route_go_on(id);
}

void dispatch_event(void *userdata, struct fabric_event *event)
{
	struct id *id = userdata;

	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		if (id && id->state == ID_LISTENING && !id->session->ending)
			listen_on_request(id, event);
		else
			fabric_id_free(event->request);
		return;
	}
	if (!id)
		return;
	id_save_untold(id, event->type);
	if (event->join)
		group_answered(event->join, /* told= */ false);
	handle(id, event);
	if (event->join)
		group_answered(event->join, /* told= */ true);
	id_save_told(id);
}
