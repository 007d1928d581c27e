/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/ahead.h"
#include "core/decide.h"
#include "core/id.h"
#include "core/lease.h"
#include "core/listener.h"
#include "core/notify.h"
#include "core/record.h"
#include "core/resolve.h"
#include "core/restore.h"
#include "core/settings.h"
#include "core/table.h"
#include "core/wish.h"
#include "keep/ledger.h"
#include "util/util.h"

#define IN(state) (1u << (state))
#define LIVING (IN(ID_ACCEPTED) | IN(ID_ESTABLISHED) | IN(ID_DISCONNECTING) | IN(ID_DISCONNECTED))

/* Sessions */

int restore_session(struct session **ret, struct core *core, int sock, int pidfd,
		    const struct ledger_session *row, const struct session_ops *ops, void *userdata)
{
	struct session *session;
	int r = session_new(&session, core, sock, ops, userdata);

	if (r < 0) {
		closep(&pidfd);
		return r;
	}
	session_restore(session, pidfd, row);
	*ret = session;
	return 0;
}

void restore_leases(struct session *session, const struct ledger_session *row)
{
	for (size_t i = 0; i < LEDGER_LEASES; i++)
		if (row->leases[i].device[0] && row->leases[i].n_opens > 0)
			lease_restore(session, row->leases[i].device, row->leases[i].n_opens);
	record_leases(session);
}

/* Ids */

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
	id->since_ms = row->since_ms;
	id->qpn = row->qpn;
	id->qp_timeout = row->qp_timeout;
	id->tos_asked = row->tos_asked;
	id->passive = row->passive;
	id->reuseaddr_asked = row->reuseaddr_asked;
	*ret = id;
	return 0;
}

/*
 * Gives the id the rule that allows it now, and counts it in the rule's limits if there is room. An id that no rule
 * allows has no rule: OnReload= decides whether it goes on.
 */
static void find_rule(struct id *id, struct id_wish *wish)
{
	struct core *core = id->session->core;
	struct policy_settings settings;
	struct policy_verdict verdict;
	struct failure ignored;

	decide_ask(id->session, &wish->wish, &verdict);
	if (verdict.answer != POLICY_ALLOW)
		return;
	settings = verdict.rule->settings;
	settings.rate = settings.rate_per_user = settings.rate_per_peer = (struct policy_rate){ 0 };
	settings_set_rule(id, verdict.rule);
	decide_admit_within(id->session, &wish->wish, verdict.rule, &settings,
			    admissions_find(core->admissions, verdict.rule), /* pending= */ false,
			    &id->admitted, &ignored);
}

static void tell(struct id *id, enum rdma_cm_event_type type, int status)
{
	struct session_event out = { .type = type, .status = status };

	notify_event(id, &out);
}

void restore_tell(struct id *id, enum rdma_cm_event_type type)
{
	tell(id, type, -ECONNABORTED);
}

static int inherit(struct id *id, const struct ledger_id *row)
{
	struct core *core = id->session->core;
	struct fabric_id_info info;

	info_of(&info, row);
	return fabric_id_inherit(&id->fabric, core->fabric, id->session->identity.uid, id->ps,
				 &info, core->on_event, id);
}

static bool is_living(const struct ledger_id *row)
{
	/* The QP attributes that belong to the response are lost, so the client can only establish if it has got them. */
	if (row->state == ID_RESPONDED)
		return row->untold == 0;
	return IN(row->state) & LIVING;
}

bool restore_living(struct session *session, const struct ledger_id *row)
{
	struct id_wish wish;
	struct id *id;

	if (!is_living(row))
		return false;
	if (new_id(&id, session, row) < 0)
		return true;
	if (inherit(id, row) < 0) {
		id_free(id);
		return true;
	}
	if (id->passive)
		wish_to_accept(&wish, id->fabric, id->ps, NULL);
	else
		wish_to_connect(&wish, id);
	wish.wish.id = id;
	id->tos = row->tos;
	id->reuseaddr = row->reuseaddr;
	id->ack_timeout = row->ack_timeout;
	if (row->state != ID_DISCONNECTED)
		find_rule(id, &wish);
	id_set_state(id, (enum id_state)row->state);
	record_id(id);
	return true;
}

/* False: the connection has ended, and the event that says so was read by the process that died. */
static bool may_end(const struct id *id)
{
	if (!fabric_id_exists(id->fabric))
		return false;
	/* In the other states only the event tells whether the peer has answered. */
	return id->state != ID_ESTABLISHED || fabric_id_is_connected(id->fabric);
}

/*
 * Tells the client what it has perhaps not been told. The events that waited in the kernel were delivered before. It
 * cannot be known whether an event was sent before the daemon died; this only matters if it died within the few
 * instructions between sending and record_told().
 */
static void tell_untold(struct id *id, const struct ledger_id *row)
{
	if (id_is_datagram(id) || row->state == ID_DISCONNECTED) {
		if (row->untold)
			tell(id, (enum rdma_cm_event_type)(row->untold - 1), 0);
		return;
	}
	if (row->untold == RDMA_CM_EVENT_ESTABLISHED + 1)
		tell(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	if (IN(id->state) & (LIVING | IN(ID_RESPONDED)) && id->state != ID_DISCONNECTED &&
	    !may_end(id)) {
		id_set_state(id, ID_DISCONNECTED);
		tell(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	}
}

static int set_options(struct id *id, const struct ledger_id *row)
{
	const struct {
		int option, value;
		int *in_force;
	} options[] = {
		{ RDMA_OPTION_ID_AFONLY, row->afonly, &id->afonly },
		{ RDMA_OPTION_ID_ACK_TIMEOUT, row->ack_timeout, &id->ack_timeout },
		{ RDMA_OPTION_ID_REUSEADDR, row->reuseaddr ? 1 : -1, NULL },
	};

	for (size_t i = 0; i < ELEMENTS_OF(options); i++) {
		int r = options[i].value < 0 ? 0 :
					       fabric_id_set_option(id->fabric, options[i].option,
								    options[i].value);

		if (r < 0)
			return r;
		if (options[i].in_force)
			*options[i].in_force = options[i].value;
	}
	id->reuseaddr = row->reuseaddr;
	return 0;
}

/* Makes a new id of the connection manager, with the options that ROW has, and its local address. */
static int make_anew(struct id *id, const struct ledger_id *row, bool bind)
{
	struct core *core = id->session->core;
	int r = fabric_id_new(&id->fabric, core->fabric, id->session->identity.uid, id->ps,
			      core->on_event, id);

	if (r == 0)
		r = set_options(id, row);
	if (r == 0 && bind)
		r = fabric_id_bind(id->fabric, (struct sockaddr *)&row->local);
	return r;
}

static int listen_anew(struct id *id, const struct ledger_id *row)
{
	struct failure ignored;
	struct id_wish wish;
	int r = listener_new(&id->listener, id->session, row->backlog, &ignored);

	if (r == 0)
		r = fabric_id_listen(id->fabric, (int)row->backlog);
	if (r != 0)
		return r < 0 ? r : -EDQUOT;
	wish_to_listen(&wish, id);
	find_rule(id, &wish);
	id_set_state(id, ID_LISTENING);
	return 0;
}

/* The id has lost what it had in the kernel. What it had begun has failed, which EVENT tells; -1: nothing. */
static int end_anew(struct id *id, const struct ledger_id *row, enum id_state state, int event)
{
	int r = inherit(id, row);

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
	struct failure failure;
	int r = make_anew(id, row, has_port);

	if (r < 0)
		return r;
	id_set_state(id, has_port ? ID_BOUND : ID_IDLE);
	r = resolve_addr(id, NULL, (struct sockaddr *)&row->peer, timeout_ms, row->route, &failure);
	if (r != 0)
		tell(id, RDMA_CM_EVENT_ADDR_ERROR, r < 0 ? r : -failure.error);
	else if (row->ahead)
		ahead_want(id);
	return 0;
}

/* The address, or the route too, was resolved. ASKED: the client waits for the route. */
static int route_anew(struct id *id, const struct ledger_id *row, bool asked)
{
	unsigned timeout_ms = id->session->core->settings.resolve_timeout_ms;
	struct fabric_id_info info;
	struct failure ignored;
	int r = make_anew(id, row, /* bind= */ false);

	info_of(&info, row);
	if (r == 0)
		r = ahead_restore(id, &info);
	if (r == 0 && asked && ahead_resolve_route(id, timeout_ms, &ignored) != 0)
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
		r = make_anew(id, row, /* bind= */ true);
		if (r < 0)
			return r;
		id_set_state(id, ID_BOUND);
		return row->state == ID_LISTENING ? listen_anew(id, row) : 0;
	case ID_ADDR_QUERY:
		return resolve_anew(id, row);
	case ID_ADDR_RESOLVED:
	case ID_ROUTE_RESOLVED:
		return route_anew(id, row, /* asked= */ false);
	case ID_ROUTE_QUERY:
		return route_anew(id, row, /* asked= */ true);
	case ID_CONNECTING:
	case ID_RESPONDED:
	case ID_ACCEPTED:
	case ID_REQUEST:
		return end_anew(id, row, ID_FAILED, RDMA_CM_EVENT_CONNECT_ERROR);
	case ID_MOVED:
	case ID_REVOKED:
		id_set_state(id, (enum id_state)row->state);
		return 0;
	case ID_REMOVED:
		return end_anew(id, row, ID_REMOVED, -1);
	default:
		return end_anew(id, row, ID_FAILED, -1);
	}
}

int restore_other(struct session *session, const struct ledger_id *row)
{
	struct failure ignored;
	struct id *id;
	int r;

	if (is_living(row)) {
		if (table_find(session, row->handle, &id, &ignored) == 0)
			tell_untold(id, row);
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
	record_id(id);
	return 0;
}
