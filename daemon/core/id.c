/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/id.h"
#include "core/watch.h"
#include "util/clock.h"
#include "util/util.h"

#define IN(state) (1u << (state))

static const char *const state_names[_ID_STATE_MAX] = {
	[ID_IDLE] = "idle",
	[ID_BOUND] = "bound",
	[ID_LISTENING] = "listening",
	[ID_ADDR_QUERY] = "resolving the address",
	[ID_ADDR_RESOLVED] = "address resolved",
	[ID_ROUTE_QUERY] = "resolving the route",
	[ID_ROUTE_RESOLVED] = "route resolved",
	[ID_CONNECTING] = "connecting",
	[ID_RESPONDED] = "waiting to be established",
	[ID_REQUEST] = "a request to be answered",
	[ID_ACCEPTED] = "accepted",
	[ID_ESTABLISHED] = "established",
	[ID_DISCONNECTING] = "disconnecting",
	[ID_DISCONNECTED] = "disconnected",
	[ID_FAILED] = "failed",
	[ID_REMOVED] = "without its device",
	[ID_MOVED] = "another session's",
	[ID_REVOKED] = "taken away by policy or an admin",
};

static const char *const state_words[_ID_STATE_MAX] = {
	[ID_IDLE] = "idle",
	[ID_BOUND] = "bound",
	[ID_LISTENING] = "listening",
	[ID_ADDR_QUERY] = "resolving-addr",
	[ID_ADDR_RESOLVED] = "addr-resolved",
	[ID_ROUTE_QUERY] = "resolving-route",
	[ID_ROUTE_RESOLVED] = "route-resolved",
	[ID_CONNECTING] = "connecting",
	[ID_RESPONDED] = "responded",
	[ID_REQUEST] = "request",
	[ID_ACCEPTED] = "accepted",
	[ID_ESTABLISHED] = "established",
	[ID_DISCONNECTING] = "disconnecting",
	[ID_DISCONNECTED] = "disconnected",
	[ID_FAILED] = "failed",
	[ID_REMOVED] = "removed",
	[ID_MOVED] = "moved",
	[ID_REVOKED] = "revoked",
};

static const char *const event_words[METRICS_N_EVENTS] = {
	"addr-resolved",   "addr-error",       "route-resolved", "route-error",
	"connect-request", "connect-response", "connect-error",  "unreachable",
	"rejected",        "established",      "disconnected",   "device-removal",
	"multicast-join",  "multicast-error",  "addr-change",    "timewait-exit",
};

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

const char *id_state_to_string(enum id_state state)
{
	return state_names[state];
}

const char *id_state_to_word(enum id_state state)
{
	return state_words[state];
}

const char *id_event_to_word(enum rdma_cm_event_type type)
{
	return (unsigned)type < METRICS_N_EVENTS ? event_words[type] : NULL;
}

/* The state changes that complete a measured step of a connection. */
static const struct {
	enum id_state from, to;
	enum phase phase;
} phases[] = {
	{ ID_ADDR_QUERY, ID_ADDR_RESOLVED, PHASE_RESOLVE_ADDR },
	{ ID_ROUTE_QUERY, ID_ROUTE_RESOLVED, PHASE_RESOLVE_ROUTE },
	{ ID_CONNECTING, ID_RESPONDED, PHASE_CONNECT },
	{ ID_CONNECTING, ID_ESTABLISHED, PHASE_CONNECT },
	{ ID_REQUEST, ID_ACCEPTED, PHASE_ACCEPT },
	{ ID_RESPONDED, ID_ESTABLISHED, PHASE_ESTABLISH },
	{ ID_ACCEPTED, ID_ESTABLISHED, PHASE_ESTABLISH },
	{ ID_DISCONNECTING, ID_DISCONNECTED, PHASE_DISCONNECT },
};

static void measure(struct id *id, enum id_state to)
{
	struct metrics *metrics = &id->session->core->metrics;
	uint64_t now = clock_ns();

	for (size_t i = 0; i < ELEMENTS_OF(phases); i++)
		if (phases[i].from == id->state && phases[i].to == to)
			histogram_observe(&metrics->phases[phases[i].phase],
					  now - id->state_since_ns);
	id->state_since_ns = now;
}

/* A datagram id in ACCEPTED has answered a look-up: no handshake follows. */
static bool is_handshake(const struct id *id)
{
	return id->state == ID_CONNECTING || id->state == ID_RESPONDED ||
	       (id->state == ID_ACCEPTED && !id_is_datagram(id));
}

void id_set_state(struct id *id, enum id_state state)
{
	struct core *core = id->session->core;

	core->n_listeners -= id->state == ID_LISTENING;
	core->n_connections -= id->state == ID_ESTABLISHED && !id_is_datagram(id);
	core->n_handshakes -= is_handshake(id);
	measure(id, state);
	id->state = state;
	core->n_handshakes += is_handshake(id);
	if (core->n_handshakes == 0)
		pool_on_quiet(core->pool);
	core->n_listeners += id->state == ID_LISTENING;
	core->n_connections += id->state == ID_ESTABLISHED && !id_is_datagram(id);
	if (state == ID_DISCONNECTED)
		timewait_enter(id);
	if (state != ID_REQUEST) {
		admitted_answered(&id->admitted);
		listener_answered(id);
		free(id->request);
		id->request = NULL;
	}
	if (state == ID_DISCONNECTED || state == ID_FAILED || state == ID_REMOVED)
		admitted_done(&id->admitted);
}

int id_refuse_state(struct id *id, const char *verb)
{
	return failure_set(&id->session->failure, STATUS_BAD_STATE, "%s: id %u is %s", verb,
			   id->handle, state_names[id->state]);
}

void id_set_rule(struct id *id, const struct policy_rule *rule)
{
	struct core *core = id->session->core;
	struct policy *policy = policy_ref(core->policy);
	struct tally *tally = tally_ref(admissions_find(core->admissions, rule));

	policy_unref(id->policy);
	tally_unref(id->tally);
	id->policy = policy;
	id->rule = rule;
	id->tally = tally;
}

void id_forget_rule(struct id *id)
{
	id->policy = policy_unref(id->policy);
	id->rule = NULL;
	id->tally = tally_unref(id->tally);
}

const struct policy_settings *id_get_caps(const struct id *id)
{
	const struct policy_settings *s = id->rule ? &id->rule->settings : NULL;

	/* A listener's rule does not apply to connections. */
	if (!s || id->listener)
		return NULL;
	return s->responder_resources >= 0 || s->initiator_depth >= 0 || s->retry_count >= 0 ||
			       s->rnr_retry_count >= 0 ?
		       s :
		       NULL;
}

void id_tell(struct id *id, struct session_event *event)
{
	event->id = id;
	if (!event->quiet) {
		if ((unsigned)event->type < METRICS_N_EVENTS)
			id->session->core->metrics.events[event->type]++;
		if (id->untold) {
			event->with_info = true;
			event->caps = id_get_caps(id);
			id->untold = false;
		}
		id->session->ops->event(id->session->userdata, event);
	}
	if (core_is_watched(id->session->core))
		watch_cm(event);
}

void id_fill_question(const struct fabric_id_info *info, struct policy_question *question)
{
	if (info->local.ss_family != AF_UNSPEC)
		question->local = (const struct sockaddr *)&info->local;
	if (info->peer.ss_family != AF_UNSPEC)
		question->peer = (const struct sockaddr *)&info->peer;
	question->device = info->device;
}

/* Creation and destruction */

int id_charge(struct id *id, struct charge *charge)
{
	return session_charge(id->session, charge, ACCOUNT_IDS, 1, "ids and groups", "IdsPerUser=");
}

/* The id is charged and has a handle, but has no fabric id yet. */
static int id_alloc(struct id **ret, struct session *session, uint32_t handle,
		    enum rdma_port_space ps, enum id_state state)
{
	struct id *id = calloc(1, sizeof(*id));
	int r;

	if (!id)
		return -ENOMEM;
	id->session = session;
	id->ps = ps;
	id->state = state;
	id->state_since_ns = clock_ns();
	id->since_ms = id->state_since_ns / 1000000;
	id->tos_asked = id->tos = id->route_tos = id->afonly = id->ack_timeout = -1;
	list_init(&id->groups);
	list_init(&id->events);
	r = id_charge(id, &id->charge);
	if (r == 0)
		r = session_add_id(session, id, handle, &id->handle);
	if (r != 0) {
		charge_done(&id->charge);
		free(id);
		return r;
	}
	session->core->n_ids++;
	*ret = id;
	return 0;
}

DEFINE_CLEANUP(struct id *, id_free)

static void on_fabric_event(void *userdata, struct fabric_event *event)
{
	id_dispatch(userdata, event);
}

int id_make(struct id *id)
{
	struct failure *failure = &id->session->failure;
	uid_t uid = id->session->identity.uid;
	int r;

	r = fabric_id_new(&id->fabric, id->session->core->fabric, uid, id->ps, on_fabric_event, id);
	if (r == -EINPROGRESS)
		return wait_for_devices(id->session, "create_id");
	if (r == -ENODEV)
		return failure_set(failure, STATUS_NO_DEVICE, "this host has no RDMA device now");
	if (r == -EDQUOT)
		return failure_set(failure, STATUS_QUOTA,
				   "very many ids of uid %u are being destroyed", uid);
	return r < 0 ? failure_set_fabric(failure, r, "create an id") : 0;
}

void id_own_fabric(struct id *id, struct fabric_id *fabric)
{
	id->fabric = fabric;
	fabric_id_set_owner(fabric, id->session->identity.uid, on_fabric_event, id);
}

int id_new(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
	   bool bare)
{
	_cleanup_(id_freep) struct id *id = NULL;
	int r;

	r = session_take_new(session, "create_id");
	if (r != 0)
		return r;
	r = id_alloc(&id, session, handle, ps, ID_IDLE);
	if (r != 0)
		return r;
	if (!bare) {
		r = id_make(id);
		if (r != 0)
			return r;
	}
	*ret = TAKE_PTR(id);
	return 0;
}

int id_new_request(struct id **ret, struct session *session, const struct fabric_event *event,
		   enum rdma_port_space ps)
{
	_cleanup_free_ struct fabric_event *request = malloc(sizeof(*request));
	int r;

	if (!request)
		return -ENOMEM;
	r = id_alloc(ret, session, 0, ps, ID_REQUEST);
	if (r != 0)
		return r;
	*request = *event;
	if (request->conn.private_data)
		request->conn.private_data = request->private_data;
	(*ret)->request = TAKE_PTR(request);
	(*ret)->passive = true;
	id_own_fabric(*ret, event->request);
	return 0;
}

int id_new_moved(struct id **ret, struct session *session, struct id *from)
{
	_cleanup_(id_freep) struct id *id = NULL;
	struct charge listening = { 0 };
	int r;

	r = id_alloc(&id, session, 0, from->ps, ID_IDLE);
	if (r == 0 && from->listener)
		r = listener_charge(session, &listening);
	if (r != 0)
		return r;

	id_own_fabric(id, TAKE_PTR(from->fabric));
	id->request = TAKE_PTR(from->request);
	id->backlog = TAKE_PTR(from->backlog);
	id->policy = TAKE_PTR(from->policy);
	id->rule = TAKE_PTR(from->rule);
	id->tally = TAKE_PTR(from->tally);
	admitted_move(&from->admitted, &id->admitted, session->identity.uid);
	id->passive = from->passive;
	id->qpn = from->qpn;
	id->qp_timeout = from->qp_timeout;
	id->resolve_until_ms = from->resolve_until_ms;
	id->route_timeout_ms = from->route_timeout_ms;
	/* The plan is not moved: its QP belongs to the old owner's process. */
	id->untold = from->untold;
	timewait_move(from, id);
	id->tos_asked = from->tos_asked;
	id->tos = from->tos;
	id->route_tos = from->route_tos;
	id->reuseaddr_asked = from->reuseaddr_asked;
	id->reuseaddr = from->reuseaddr;
	id->afonly = from->afonly;
	id->ack_timeout = from->ack_timeout;
	if (from->listener)
		listener_set_id(from->listener, id, &listening);
	id->listener = TAKE_PTR(from->listener);
	id_set_state(id, from->state);
	id->state_since_ns = from->state_since_ns;
	id_set_state(from, ID_MOVED);
	/*
	 * A request of the old session may wait for the QP check. It is repeated, and fails because the id
	 * has moved.
	 */
	if (from->qp_check.lookup)
		from->session->ops->resume(from->session->userdata);
	from->qp_check.lookup = fabric_lookup_cancel(from->qp_check.lookup);
	free(from->plan);
	from->plan = NULL;
	*ret = TAKE_PTR(id);
	return 0;
}

struct id *id_free(struct id *id)
{
	if (!id)
		return NULL;
	/* In these states the QP knows a peer, so packets may still be under way. */
	if (IN(id->state) & (IN(ID_RESPONDED) | IN(ID_ACCEPTED) | IN(ID_ESTABLISHED) |
			     IN(ID_DISCONNECTING) | IN(ID_DISCONNECTED)))
		timewait_enter(id);
	id_set_state(id, ID_FAILED);
	fabric_lookup_cancel(id->qp_check.lookup);
	if (!list_is_empty(&id->events))
		id->session->ops->forget(id->session->userdata, id);
	export_free(id->export);
	id_leave_all(id);
	listener_free(id->listener);
	timewait_forget(id);
	if (id->session->ending)
		fabric_id_abandon(id->fabric);
	else
		fabric_id_free(id->fabric);
	admitted_done(&id->admitted);
	tally_unref(id->tally);
	policy_unref(id->policy);
	session_remove_id(id->session, id->handle);
	id->session->core->n_ids--;
	charge_done(&id->charge);
	free(id->plan);
	free(id);
	return NULL;
}

/* On the passive side the retry counts are those that the peer requested. */
static void cap_retries(const struct id *id, struct qp_attr *qp)
{
	const struct policy_settings *caps = id_get_caps(id);

	if (!caps)
		return;
	if (caps->retry_count >= 0 && qp->attr.retry_cnt > caps->retry_count)
		qp->attr.retry_cnt = (uint8_t)caps->retry_count;
	if (caps->rnr_retry_count >= 0 && qp->attr.rnr_retry > caps->rnr_retry_count)
		qp->attr.rnr_retry = (uint8_t)caps->rnr_retry_count;
}

int id_qp_attr(struct id *id, enum ibv_qp_state state, struct qp_attr *ret)
{
	struct qp_attr qp = { .attr.qp_state = state };
	int r;

	if ((unsigned)state > IBV_QPS_ERR)
		return failure_set(&id->session->failure, STATUS_BAD_REQUEST,
				   "there is no QP state %d", (int)state);
	if (id_is_empty(id))
		return id_refuse_state(id, "init_qp_attr");
	r = fabric_id_qp_attr(id->fabric, state, &qp.attr, &qp.mask);
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r,
					  "QP attributes for an id that is %s",
					  state_names[id->state]);
	/*
	 * On the passive side the kernel takes the address handle from the connection request, with the
	 * traffic class that the peer chose. Replace it by the one that our policy has set.
	 */
	if (id->tos >= 0 && (qp.mask & IBV_QP_AV) && qp.attr.ah_attr.is_global)
		qp.attr.ah_attr.grh.traffic_class = (uint8_t)id->tos;
	cap_retries(id, &qp);
	if (qp.attr.qp_state == IBV_QPS_RTS && (qp.mask & IBV_QP_TIMEOUT))
		id->qp_timeout = qp.attr.timeout;
	*ret = qp;
	return 0;
}

/* Events */

static bool id_move(struct id *id, enum rdma_cm_event_type type)
{
	for (size_t i = 0; i < ELEMENTS_OF(moves); i++)
		if (moves[i].event == type && (moves[i].from & IN(id->state))) {
			id_set_state(id, moves[i].to);
			return true;
		}
	return false;
}

void id_dispatch(struct id *id, struct fabric_event *event)
{
	struct session_event out = {
		.fabric = event,
		.type = event->type,
		.status = event->status,
	};
	struct policy_verdict verdict;
	bool moved, asked;
	int r = 0;

	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		if (id && id->state == ID_LISTENING && !id->session->ending)
			listener_on_request(id->listener, event);
		else
			fabric_id_free(event->request);
		return;
	}
	if (!id)
		return;
	if (event->type == RDMA_CM_EVENT_ADDR_ERROR && conn_resolve_on(id, event->status))
		return;

	asked = id->state == ID_DISCONNECTING;
	moved = id_move(id, event->type);
	/* Reply to the peer's disconnect here, so that the reply does not depend on the client. */
	if (event->type == RDMA_CM_EVENT_DISCONNECTED && !asked)
		fabric_id_disconnect(id->fabric);
	if (!moved && event->type != RDMA_CM_EVENT_TIMEWAIT_EXIT &&
	    event->type != RDMA_CM_EVENT_ADDR_CHANGE)
		log_debug("Session %llu, id %u: %s while %s.",
			  (unsigned long long)id->session->number, id->handle,
			  rdma_event_str(event->type), state_names[id->state]);

	if (event->type == RDMA_CM_EVENT_TIMEWAIT_EXIT)
		timewait_exit(id);
	if (event->join)
		out.group = group_addr(event->join);

	/* An event that did not change the state is only passed on. */
	if (moved && event->type == RDMA_CM_EVENT_ADDR_RESOLVED) {
		r = conn_decide(id, /* early= */ false, NULL, NULL, &verdict);
		if (r == 0)
			r = conn_admit(id, &verdict);
		if (r == 0)
			r = id_qp_attr(id, IBV_QPS_INIT, &out.init);
		out.caps = id_get_caps(id);
		out.with_info = true;
		out.quiet = id->untold = r == 0 && conn_keeps_plan(id, &out.init.attr);
	} else if (moved && event->type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
		out.quiet = id->plan != NULL;
	} else if (moved && event->type == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		r = id_qp_attr(id, IBV_QPS_INIT, &out.init);
		if (r == 0)
			r = id_qp_attr(id, IBV_QPS_RTR, &out.rtr);
		if (r == 0)
			r = id_qp_attr(id, IBV_QPS_RTS, &out.rts);
	}

	/*
	 * The step has failed in the broker: send the client the event that the kernel would have sent for a
	 * failure.
	 */
	if (r != 0) {
		bool resolving = event->type == RDMA_CM_EVENT_ADDR_RESOLVED;

		id_set_state(id, resolving ? ID_BOUND : ID_FAILED);
		out.type = resolving ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_CONNECT_ERROR;
		out.status = r < 0 ? r : -id->session->failure.error;
		out.failure = r < 0 ? NULL : &id->session->failure;
	}
	id_tell(id, &out);
	/*
	 * A disconnect that was requested before the connection existed had no effect. Then this event is the
	 * peer's disconnect, which needs a reply.
	 */
	if (event->type == RDMA_CM_EVENT_DISCONNECTED && asked)
		fabric_id_disconnect(id->fabric);
	conn_go_on(id);
}
