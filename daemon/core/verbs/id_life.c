/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "core/admit/decide.h"
#include "core/admit/priority.h"
#include "core/object/inquiry.h"
#include "core/object/listener.h"
#include "core/object/quota.h"
#include "core/object/restriction.h"
#include "core/object/table.h"
#include "core/object/timewait.h"
#include "core/object/token.h"
#include "core/object/undecided.h"
#include "core/object/wait.h"
#include "core/object/whois.h"
#include "core/verbs/group.h"
#include "core/verbs/id_life.h"
#include "takeover/ledger.h"
#include "util/clock.h"
#include "util/util.h"

/* Begin */

static int new_at(struct id **ret, struct session *session, uint32_t handle,
		  enum rdma_port_space ps, enum id_state state,
		  int (*add)(struct session *session, struct id *id, uint32_t handle, uint32_t *ret,
			     struct failure *failure),
		  struct failure *failure)
{
	struct ledger *ledger = session->core->keep.ledger;
	struct id *id = malloc(sizeof(*id));
	int r;

	if (!id)
		return failure_errno(failure, -ENOMEM);
	*id = (struct id){ .session = session, .ps = ps, .state = state };
	id->state_since_ns = clock_ns();
	id->since_ms = id->state_since_ns / 1000000;
	options_init(&id->options);
	route_init(&id->route);
	list_init(&id->groups);
	list_init(&id->events);
	r = quota_charge(session, &id->charge, ACCOUNT_IDS, 1, failure);
	if (r == 0)
		r = restriction_count_id(session->restriction, &id->restricted, failure);
	if (r == 0) {
		id->row = ledger_add_id(ledger);
		if (!id->row && session->row)
			r = failure_set_not_kept(failure, "ids");
	}
	if (r == 0)
		r = add(session, id, handle, &id->handle, failure);
	if (r != 0) {
		ledger_remove_id(ledger, id->row);
		restriction_uncount_id(id->restricted);
		charge_done(&id->charge);
		free(id);
		return r;
	}
	session->core->n_ids++;
	id_save(id);
	*ret = id;
	return 0;
}

int id_new_again(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
		 struct failure *failure)
{
	return new_at(ret, session, handle, ps, ID_IDLE, table_add_again, failure);
}

DEFINE_CLEANUP(struct id *, id_free)

static int make_fabric_id(struct id *id, struct failure *failure)
{
	struct core *core = id->session->core;
	const struct identity *identity = &id->session->identity;
	int r;

	r = fabric_id_new(&id->fabric, core->fabric, identity->owner, id->ps, core->on_event, id);
	if (r == -EINPROGRESS)
		return wait_for_devices(id->session, "create_id", failure);
	if (r == -ENODEV)
		return failure_set(failure, STATUS_NO_DEVICE, "this host has no RDMA device now");
	if (r == -EDQUOT)
		return failure_set(failure, STATUS_QUOTA,
				   "uid %u has too many ids that are not destroyed completely yet",
				   identity->uid);
	return r < 0 ? failure_set_fabric(failure, r, "create an id") : 0;
}

int id_new(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
	   struct failure *failure)
{
	_cleanup_(id_freep) struct id *id = NULL;
	int r;

	r = decide_may_begin(session, "create_id", failure);
	if (r != 0)
		return r;
	r = new_at(&id, session, handle, ps, ID_IDLE, table_add, failure);
	if (r != 0)
		return r;
	r = make_fabric_id(id, failure);
	if (r != 0)
		return r;
	*ret = TAKE_PTR(id);
	return 0;
}

int id_new_request(struct id **ret, struct session *session, const struct fabric_event *event,
		   enum rdma_port_space ps, struct failure *failure)
{
	_cleanup_free_ struct fabric_event *request = malloc(sizeof(*request));
	int r;

	if (!request)
		return failure_errno(failure, -ENOMEM);
	r = new_at(ret, session, 0, ps, ID_REQUEST, table_add, failure);
	if (r != 0)
		return r;
	*request = *event;
	if (request->conn.private_data)
		request->conn.private_data = request->private_data;
	(*ret)->handshake.passive = true;
	(*ret)->handshake.request = TAKE_PTR(request);
	if (!id_save_request(*ret)) {
		*ret = id_free(*ret);
		return failure_set_not_kept(failure, "connection requests");
	}
	id_own_fabric(*ret, event->request);
	id_save(*ret);
	return 0;
}

/* States */

/* By old and new state: the phase of a connection that ends with this change, plus 1; 0: none. */
static const uint8_t phases[_ID_STATE_MAX][_ID_STATE_MAX] = {
	[ID_ADDR_QUERY][ID_ADDR_RESOLVED] = PHASE_RESOLVE_ADDR + 1,
	[ID_ROUTE_QUERY][ID_ROUTE_RESOLVED] = PHASE_RESOLVE_ROUTE + 1,
	[ID_CONNECTING][ID_RESPONDED] = PHASE_CONNECT + 1,
	[ID_CONNECTING][ID_ESTABLISHED] = PHASE_CONNECT + 1,
	[ID_REQUEST][ID_ACCEPTED] = PHASE_ACCEPT + 1,
	[ID_RESPONDED][ID_ESTABLISHED] = PHASE_ESTABLISH + 1,
	[ID_ACCEPTED][ID_ESTABLISHED] = PHASE_ESTABLISH + 1,
	[ID_DISCONNECTING][ID_DISCONNECTED] = PHASE_DISCONNECT + 1,
};

static void measure(struct id *id, enum id_state to)
{
	struct metrics *metrics = &id->session->core->metrics;
	uint8_t phase = phases[id->state][to];
	uint64_t now = clock_ns();

	if (phase > 0)
		histogram_observe(&metrics->phases[phase - 1], now - id->state_since_ns);
	id->state_since_ns = now;
}

/* A datagram id in ACCEPTED has answered a service look-up, and no handshake follows. */
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
	if (state == ID_DISCONNECTING)
		id->handshake.ended_from = id->state;
	id->handshake.unconfirmed = state == ID_DISCONNECTED && id->state != ID_DISCONNECTING &&
				    id->session->confirms;
	id->state = state;
	core->n_handshakes += is_handshake(id);
	core->n_listeners += id->state == ID_LISTENING;
	core->n_connections += id->state == ID_ESTABLISHED && !id_is_datagram(id);
	if (core->whois)
		whois_update(id);
	if (state == ID_DISCONNECTED && !id->handshake.unconfirmed)
		timewait_enter(id);
	if (state != ID_REQUEST) {
		admitted_answered(&id->grant.admitted);
		listener_answered(id);
		if (id->handshake.request)
			handshake_drop_request(&id->handshake);
	}
	if (state == ID_DISCONNECTED || state == ID_FAILED || state == ID_REMOVED)
		admitted_done(&id->grant.admitted);
	id_save_state(id);
	/* No event of the route will come any more, so the request that waits for one is refused. */
	if (IN(state) & (IN(ID_REMOVED) | IN(ID_REVOKED) | IN(ID_FAILED) | IN(ID_MOVED)) &&
	    route_is_awaited(&id->route))
		id->session->ops->resume(id->session->userdata, /* handle= */ 0);
}

/* Move */

static void move_listener(struct id *to, struct id *from, struct charge *charge)
{
	if (!from->listener)
		return;
	to->listener = TAKE_PTR(from->listener);
	charge_done(&to->listener->charge);
	to->listener->charge = *charge;
	to->listener->id = to;
	undecided_move(to->listener);
}

static void move_inquiry(struct id *to, struct id *from)
{
	to->who.inquiry = TAKE_PTR(from->who.inquiry);
	inquiry_move(to->who.inquiry, to->session, to);
}

/* Both enter their states. */
static void move_state(struct id *to, struct id *from)
{
	bool unconfirmed = from->handshake.unconfirmed;

	id_set_state(to, from->state);
	to->state_since_ns = from->state_since_ns;
	to->handshake.ended_from = from->handshake.ended_from;
	/* Nobody replies to the peer's disconnect in the new session. */
	if (unconfirmed && !to->handshake.unconfirmed)
		fabric_id_disconnect(to->fabric);
	to->handshake.unconfirmed = to->handshake.unconfirmed && unconfirmed;
	id_set_state(from, ID_MOVED);
}

/* A request of the old session that waits for the QP check is resumed, and will fail because the id has moved. */
static void end_qp_check(struct id *from)
{
	struct qpcheck *check = &from->handshake.qp_check;

	if (check->lookup)
		from->session->ops->resume(from->session->userdata, from->handle);
	check->lookup = fabric_lookup_cancel(check->lookup);
	check->request = 0;
}

/* The same, for a request of attributes. */
static void end_priority(struct id *from)
{
	if (from->handshake.priority.asks)
		from->session->ops->resume(from->session->userdata, /* handle= */ 0);
	priority_done(from);
}

int id_move(struct id **ret, struct session *session, struct id *from, struct failure *failure)
{
	_cleanup_(id_freep) struct id *id = NULL;
	struct charge listening = { 0 };
	int r;

	r = new_at(&id, session, 0, from->ps, ID_IDLE, table_add, failure);
	if (r == 0 && from->listener)
		r = quota_charge(session, &listening, ACCOUNT_LISTENERS, 1, failure);
	if (r != 0)
		return r;

	id_own_fabric(id, TAKE_PTR(from->fabric));
	id->any_port = from->any_port;
	id->options = from->options;
	grant_move(&id->grant, &from->grant, session->identity.owner.uid);
	route_move(&id->route, &from->route);
	handshake_move(&id->handshake, &from->handshake);
	timewait_move(from, id);
	who_move(&id->who, &from->who);
	move_inquiry(id, from);
	move_listener(id, from, &listening);
	move_state(id, from);
	end_qp_check(from);
	end_priority(from);
	if (id->handshake.request)
		id_save_request(id);
	id_save(id);
	*ret = TAKE_PTR(id);
	return 0;
}

/* End */

struct id *id_free(struct id *id)
{
	if (!id)
		return NULL;
	/* In these states the QP can have been connected, so its packets can be in the network. */
	if (IN(id->state) & (IN(ID_RESPONDED) | IN(ID_ACCEPTED) | IN(ID_ESTABLISHED) |
			     IN(ID_DISCONNECTING) | IN(ID_DISCONNECTED)))
		timewait_enter(id);
	/* To destroy the id would reply, too, but a thread does that, and can be busy. */
	if (id->handshake.unconfirmed)
		fabric_id_disconnect(id->fabric);
	id_set_state(id, ID_FAILED);
	whois_remove(id);
	inquiry_free(id->who.inquiry);
	fabric_lookup_cancel(id->handshake.qp_check.lookup);
	priority_done(id);
	if (!list_is_empty(&id->events))
		id->session->ops->forget(id->session->userdata, id);
	if (id->listener)
		undecided_drop(id->listener);
	token_free(id->token);
	group_leave_some(id, UINT_MAX);
	listener_free(id->listener);
	timewait_forget(id);
	route_done(&id->route);
	if (id->session->ending)
		fabric_id_abandon(id->fabric);
	else
		fabric_id_free(id->fabric);
	grant_done(&id->grant);
	who_done(&id->who);
	table_remove(id->session, id->handle);
	id->session->core->n_ids--;
	id->row = ledger_remove_id(id->session->core->keep.ledger, id->row);
	restriction_uncount_id(id->restricted);
	charge_done(&id->charge);
	free(id);
	return NULL;
}
