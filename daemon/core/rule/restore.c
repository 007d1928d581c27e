/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/admit/decide.h"
#include "core/admit/intent.h"
#include "core/admit/notify.h"
#include "core/admit/rule_settings.h"
#include "core/object/listener.h"
#include "core/object/table.h"
#include "core/object/timewait.h"
#include "core/object/whois.h"
#include "core/rule/restore.h"
#include "core/verbs/group.h"
#include "core/verbs/id_life.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/resolve_route.h"
#include "core/verbs/session_life.h"
#include "takeover/ledger.h"
#include "util/util.h"

#define HANDSHAKE (IN(ID_CONNECTING) | IN(ID_RESPONDED) | IN(ID_REQUEST) | IN(ID_ACCEPTED))
#define LIVING (HANDSHAKE | IN(ID_ESTABLISHED) | IN(ID_DISCONNECTING) | IN(ID_DISCONNECTED))
#define EMPTY (IN(ID_MOVED) | IN(ID_REVOKED) | IN(ID_REMOVED))

/* Sessions */

int restore_session(struct session **ret, struct core *core, int sock, int pidfd,
		    const struct ledger_session *row, const struct session_ops *ops, void *userdata)
{
	struct session *session;
	int r = session_new(&session, core, sock, DOOR_COMMON, /* restriction= */ NULL, ops,
			    userdata);

	if (r < 0) {
		closep(&pidfd);
		return r;
	}
	session_restore(session, pidfd, row);
	*ret = session;
	return 0;
}

/* Ids */

void restore_undo(struct ledger_id *row)
{
	if (!row->untold || !(IN(row->state_before) & (IN(ID_ADDR_QUERY) | IN(ID_ROUTE_QUERY))))
		return;
	row->state = row->state_before;
	row->route = row->route_before;
	row->ahead = row->ahead_before;
	row->untold = 0;
}

static void info_of(struct fabric_id_info *ret, const struct ledger_id *row)
{
	*ret = (struct fabric_id_info){
		.local = row->local,
		.peer = row->peer,
		.device = row->device[0] ? row->device : NULL,
		.port_num = row->port_num,
	};
}

static int new_id(struct id **ret, struct session *session, const struct ledger_id *row)
{
	struct failure ignored;
	struct id *id;
	int r = id_new_again(&id, session, row->handle, (enum rdma_port_space)row->ps, &ignored);

	if (r != 0)
		return r < 0 ? r : -EDQUOT;
	id_load(id, row);
	*ret = id;
	return 0;
}

/*
 * Gives the id the rule that allows it now, and counts it in the rule's limits if there is room. An id that no rule
 * allows has no rule: OnReload= decides whether it goes on.
 */
static void find_rule(struct id *id, struct id_intent *intent)
{
	struct policy_verdict verdict;

	/* The answer of whom the previous process has asked is lost, and nobody is asked again. */
	intent->intent.question.assume_who = id->who.state != WHO_UNASKED;
	decide_ask(id->session, &intent->intent, &verdict);
	if (verdict.answer != POLICY_ALLOW)
		return;
	rule_settings_use(id, verdict.rule);
	decide_admit_again(id->session, &intent->intent, verdict.rule, id->state == ID_REQUEST,
			   &id->grant.admitted);
}

static void tell(struct id *id, enum rdma_cm_event_type type, int status)
{
	notify_result(id, type, status, /* failure= */ NULL);
}

static enum fabric_stage stage_of(const struct ledger_id *row)
{
	enum id_state state = (enum id_state)row->state;

	if (state == ID_DISCONNECTING &&
	    (row->ended_from == ID_CONNECTING || row->ended_from == ID_ACCEPTED))
		state = (enum id_state)row->ended_from;
	switch (state) {
	case ID_CONNECTING:
		return STAGE_ASKED;
	case ID_RESPONDED:
		return STAGE_ANSWERED;
	case ID_ACCEPTED:
		return STAGE_ACCEPTED;
	case ID_ESTABLISHED:
	case ID_DISCONNECTING:
		return STAGE_ESTABLISHED;
	default:
		return STAGE_NONE;
	}
}

static int restore_fabric(struct id *id, const struct ledger_id *row)
{
	struct core *core = id->session->core;
	struct fabric_id_info info;
	int r;

	info_of(&info, row);
	r = fabric_id_restore(&id->fabric, core->fabric, id->session->identity.owner, id->ps, &info,
			      stage_of(row), row->passive, core->on_event, id);
	if (r == 0 && id->options.now[OPTION_QP_TYPE] >= 0)
		fabric_id_set_qp_type(id->fabric,
				      (enum ibv_qp_type)id->options.now[OPTION_QP_TYPE]);
	return r;
}

static bool is_living(const struct left_id *left_id)
{
	const struct ledger_id *row = left_id->row;

	if (IN(row->state) & EMPTY)
		return false;
	if (left_id->n_groups > 0)
		return true;
	/* The kernel does not know of a connect or accept that is held back. */
	if (row->held || !(IN(row->state) & LIVING))
		return false;
	switch (row->state) {
	case ID_CONNECTING:
	case ID_RESPONDED:
		/* If the client has not got the event of the response, the response is lost. */
		return row->untold == 0;
	case ID_REQUEST:
		return row->told && left_id->request;
	default:
		return true;
	}
}

/* The decision about ID, again. */
static void decide_again(struct id *id)
{
	struct id_intent intent;

	if (!(IN(id->state) & LIVING) || id->state == ID_DISCONNECTED)
		return;
	if (id->handshake.passive)
		intent_to_accept_id(&intent, id);
	else
		intent_to_connect(&intent, id);
	find_rule(id, &intent);
}

bool restore_living(struct session *session, const struct left_id *left_id)
{
	const struct ledger_id *row = left_id->row;
	struct id *id;

	if (!is_living(left_id))
		return false;
	if (new_id(&id, session, row) < 0)
		return true;
	id->route.path_pkey = row->path_pkey;
	if (restore_fabric(id, row) < 0 ||
	    (row->state == ID_REQUEST &&
	     handshake_load_request(&id->handshake, left_id->request, id->fabric) < 0)) {
		id_free(id);
		return true;
	}
	id_set_state(id, (enum id_state)row->state);
	id->handshake.ended_from = (enum id_state)row->ended_from;
	if (id->handshake.unconfirmed && !row->unconfirmed) {
		id->handshake.unconfirmed = false;
		timewait_enter(id);
	}
	/* The disconnect that the previous process has put off, see fabric/iwarp.h. */
	if (id->state == ID_DISCONNECTING && fabric_id_is_iwarp(id->fabric))
		fabric_id_disconnect(id->fabric);
	decide_again(id);
	for (size_t i = 0; i < left_id->n_groups; i++)
		group_restore(id, &left_id->groups[i], row->untold != 0);
	if (id->handshake.request)
		id_save_request(id);
	id_save(id);
	id_save_told(id);
	return true;
}

bool restore_request(void *userdata, enum rdma_port_space ps, struct fabric_event *event)
{
	struct core *core = userdata;
	struct fabric_id_info info;
	struct id *id;

	fabric_id_get_info(event->request, &info);
	id = whois_find_listener(core, ps, (struct sockaddr *)&info.local);
	if (!id)
		return false;
	core->on_event(id, event);
	return true;
}

static void end_with(struct id *id, enum id_state state, enum rdma_cm_event_type type, int status)
{
	id_set_state(id, state);
	tell(id, type, status);
}

static bool is_connecting(const struct id *id)
{
	return id->state == ID_CONNECTING ||
	       (id->state == ID_DISCONNECTING && id->handshake.ended_from == ID_CONNECTING);
}

/* True: the connect of ID is not waiting for its answer any more, and the event that says so does not wait either. */
static bool has_lost_answer(struct id *id)
{
	/* It cannot be known of a service look-up. */
	if (!id_is_datagram(id) && fabric_id_is_asking(id->fabric))
		return false;
	fabric_takeover_poll(id->session->core->fabric);
	return is_connecting(id);
}

/* An event of the id can have been lost. Finds out what it was. */
static void find_lost_event(struct id *id)
{
	bool failed = false;

	if (is_connecting(id)) {
		failed = has_lost_answer(id);
	} else if (id->state == ID_ACCEPTED && !id_is_datagram(id)) {
		/* If the peer has not confirmed yet, it is taken as confirmed, and the event follows. */
		int r = fabric_id_notify(id->fabric, IBV_EVENT_COMM_EST);

		if (r < 0)
			fabric_takeover_poll(id->session->core->fabric);
		if (r == -EISCONN && id->state == ID_ACCEPTED)
			end_with(id, ID_ESTABLISHED, RDMA_CM_EVENT_ESTABLISHED, 0);
		failed = r < 0 && id->state == ID_ACCEPTED;
	}
	if (failed)
		end_with(id, ID_FAILED, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNABORTED);
}

/*
 * Tells the client what it has perhaps not been told. The events that waited in the kernel were delivered before. It
 * cannot be known whether an event was sent before the daemon died; this only matters if it died within the few
 * instructions between sending and id_save_told().
 */
static void tell_untold(struct id *id, const struct left_id *left_id)
{
	const struct ledger_id *row = left_id->row;

	if (id_is_datagram(id) || row->state == ID_DISCONNECTED) {
		/* A join whose event was lost was joined again. */
		if (row->untold && row->untold != RDMA_CM_EVENT_MULTICAST_JOIN + 1 &&
		    row->untold != RDMA_CM_EVENT_MULTICAST_ERROR + 1)
			tell(id, (enum rdma_cm_event_type)(row->untold - 1), 0);
		return;
	}
	if (row->untold == RDMA_CM_EVENT_ESTABLISHED + 1) {
		if (id->state == ID_ACCEPTED)
			id_set_state(id, ID_ESTABLISHED);
		tell(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	}
}

/*
 * ID was restored by restore_living(), and the events that waited in the kernel were delivered since. An event that the
 * previous process had read, and died before it could pass it on, is lost. So ID's state is compared with the kernel's, and
 * what the client has missed is made up for.
 */
static void settle(struct id *id, const struct left_id *left_id)
{
	tell_untold(id, left_id);
	if (id->state == ID_DISCONNECTED || !(IN(id->state) & LIVING))
		return;
	/* The kernel has no such id any more: whatever ended it was lost. */
	if (!fabric_id_exists(id->fabric)) {
		if (IN(id->state) & HANDSHAKE)
			end_with(id, ID_FAILED, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNABORTED);
		else
			end_with(id, ID_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0);
	} else if (id->state == ID_ESTABLISHED && !id_is_datagram(id) &&
		   !fabric_id_is_connected(id->fabric)) {
		end_with(id, ID_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0);
	} else if (id->state == left_id->row->state &&
		   (left_id->event_lost || (is_connecting(id) && fabric_id_is_iwarp(id->fabric)))) {
		/*
		 * No event has come since. One was lost, perhaps this id's; or the connect, which on iWARP a thread of the
		 * previous process can have carried out, has ended with it.
		 */
		find_lost_event(id);
	}
}

/* Makes a new id of the connection manager, with the options that ROW has, and its local address. */
static int make_anew(struct id *id, const struct ledger_id *row, bool bind)
{
	struct core *core = id->session->core;
	int r = fabric_id_new(&id->fabric, core->fabric, id->session->identity.owner, id->ps,
			      core->on_event, id);

	id->options.now[OPTION_TOS] = -1;
	if (r == 0)
		r = options_put(&id->options, id->fabric);
	if (r == 0 && bind)
		r = fabric_id_bind(id->fabric, (struct sockaddr *)&row->local);
	return r;
}

static int listen_anew(struct id *id, const struct ledger_id *row)
{
	struct failure ignored;
	struct id_intent intent;
	int r = listener_new(&id->listener, id, row->backlog, &ignored);

	if (r == 0)
		r = fabric_id_listen_anew(id->fabric, (int)row->backlog);
	if (r != 0)
		return r < 0 ? r : -EDQUOT;
	intent_to_listen(&intent, id);
	find_rule(id, &intent);
	id_set_state(id, ID_LISTENING);
	return 0;
}

/* The id has lost what it had in the kernel. What it had begun has failed, which EVENT tells; -1: nothing. */
static int end_anew(struct id *id, const struct ledger_id *row, enum id_state state, int event)
{
	int r = restore_fabric(id, row);

	if (r < 0)
		return r;
	id_set_state(id, state);
	if (event >= 0)
		tell(id, (enum rdma_cm_event_type)event, -ECONNABORTED);
	return 0;
}

/* Resolves the address again, as the client has requested it. */
static int resolve_anew(struct id *id, const struct ledger_id *row)
{
	bool has_port = row->local.ss_family != AF_UNSPEC;
	unsigned timeout_ms = id->session->core->settings.resolve_timeout_ms;
	enum route_when route = (row->route ? ROUTE_TOO : 0) | (row->ahead ? ROUTE_AHEAD : 0);
	struct failure failure;
	int r = make_anew(id, row, has_port);

	if (r < 0)
		return r;
	id_set_state(id, has_port ? ID_BOUND : ID_IDLE);
	r = resolve_addr(id, NULL, (struct sockaddr *)&row->peer, timeout_ms, route, &failure);
	if (r != 0)
		tell(id, RDMA_CM_EVENT_ADDR_ERROR, r < 0 ? r : -failure.error);
	return 0;
}

/* Makes an id anew whose address, and perhaps its route, was resolved. ASKED: the client waits for the route. */
static int route_anew(struct id *id, const struct ledger_id *row, bool asked)
{
	unsigned timeout_ms = id->session->core->settings.resolve_timeout_ms;
	struct fabric_id_info info;
	struct failure ignored;
	int r = make_anew(id, row, /* bind= */ false);

	info_of(&info, row);
	if (r == 0)
		r = resolve_route_restore(id, &info);
	if (r == 0 && asked && resolve_route(id, timeout_ms, &ignored) != 0)
		tell(id, RDMA_CM_EVENT_ROUTE_ERROR, -ECONNABORTED);
	return r;
}

static int restore_state(struct id *id, const struct ledger_id *row)
{
	int r;

	switch (row->state) {
	case ID_IDLE:
		return make_anew(id, row, /* bind= */ false);
	case ID_BOUND:
	case ID_LISTENING:
		if (row->state == ID_LISTENING)
			fabric_takeover_listener(id->session->core->fabric, id->ps, &row->local);
		r = make_anew(id, row, /* bind= */ true);
		if (r < 0)
			return r;
		id_set_state(id, ID_BOUND);
		return row->state == ID_LISTENING ? listen_anew(id, row) : 0;
	case ID_ADDR_QUERY:
		return resolve_anew(id, row);
	case ID_ADDR_RESOLVED:
		return route_anew(id, row, row->route);
	case ID_ROUTE_RESOLVED:
		return route_anew(id, row, /* asked= */ false);
	case ID_ROUTE_QUERY:
		return route_anew(id, row, /* asked= */ true);
	case ID_CONNECTING ... ID_ACCEPTED:
		return end_anew(id, row, ID_FAILED, RDMA_CM_EVENT_CONNECT_ERROR);
	case ID_MOVED:
	case ID_REVOKED:
		id_set_state(id, (enum id_state)row->state);
		return 0;
	case ID_REMOVED:
		return end_anew(id, row, ID_REMOVED,
				row->untold ? (int)RDMA_CM_EVENT_DEVICE_REMOVAL : -1);
	default:
		/* The contents of the event, for example of a reject, are lost. */
		return end_anew(id, row, ID_FAILED,
				row->untold ? (int)RDMA_CM_EVENT_CONNECT_ERROR : -1);
	}
}

int restore_other(struct session *session, const struct left_id *left_id)
{
	const struct ledger_id *row = left_id->row;
	struct failure ignored;
	struct id *id;
	int r;

	if (is_living(left_id)) {
		if (table_find(session, row->handle, &id, &ignored) == 0)
			settle(id, left_id);
		return 0;
	}
	/* The client was never told of this connection request, and the peer was rejected. */
	if (row->state == ID_REQUEST && !row->told)
		return 0;
	r = new_id(&id, session, row);
	if (r < 0)
		return r;
	r = restore_state(id, row);
	/* Without its address or its device the id is of no use. DEVICE_REMOVAL is the event that says so. */
	if (r < 0) {
		if (id->fabric)
			fabric_id_free(id->fabric);
		id->fabric = NULL;
		id_set_state(id, ID_REVOKED);
		tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL, r);
	}
	id_save(id);
	return 0;
}
