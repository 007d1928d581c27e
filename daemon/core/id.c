/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/asked.h"
#include "core/decide.h"
#include "core/group.h"
#include "core/id.h"
#include "core/inquiry.h"
#include "core/listener.h"
#include "core/peerid.h"
#include "core/quota.h"
#include "core/record.h"
#include "core/settings.h"
#include "core/table.h"
#include "core/timewait.h"
#include "core/token.h"
#include "core/wait.h"
#include "core/whois.h"
#include "keep/ledger.h"
#include "util/clock.h"
#include "util/util.h"

#define IN(state) (1u << (state))

static int new_at(struct id **ret, struct session *session, uint32_t handle,
		  enum rdma_port_space ps, enum id_state state,
		  int (*add)(struct session *session, struct id *id, uint32_t handle, uint32_t *ret,
			     struct failure *failure),
		  struct failure *failure)
{
	struct ledger *ledger = session->core->keep.ledger;
	struct id *id = calloc(1, sizeof(*id));
	int r;

	if (!id)
		return failure_errno(failure, -ENOMEM);
	id->session = session;
	id->ps = ps;
	id->state = state;
	id->state_since_ns = clock_ns();
	id->since_ms = id->state_since_ns / 1000000;
	id->tos_asked = id->tos = id->route_tos = id->afonly = id->ack_timeout = -1;
	id->route_ack_timeout = -1;
	list_init(&id->ahead.link);
	list_init(&id->groups);
	list_init(&id->events);
	r = quota_charge_id(session, &id->charge, failure);
	if (r == 0)
		r = restriction_count_id(session->restriction, &id->restricted, failure);
	if (r == 0) {
		id->row = ledger_add_id(ledger);
		if (!id->row && record_keeps(session))
			r = record_refuse(failure, "ids");
	}
	if (r == 0)
		r = add(session, id, handle, &id->handle, failure);
	if (r != 0) {
		ledger_remove_id(ledger, id->row);
		restricted_done(&id->restricted);
		charge_done(&id->charge);
		free(id);
		return r;
	}
	session->core->n_ids++;
	record_id(id);
	*ret = id;
	return 0;
}

int id_new_empty(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
		 enum id_state state, struct failure *failure)
{
	return new_at(ret, session, handle, ps, state, table_add, failure);
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
	uid_t uid = id->session->identity.uid;
	int r;

	r = fabric_id_new(&id->fabric, core->fabric, uid, id->ps, core->on_event, id);
	if (r == -EINPROGRESS)
		return wait_for_devices(id->session, "create_id", failure);
	if (r == -ENODEV)
		return failure_set(failure, STATUS_NO_DEVICE, "this host has no RDMA device now");
	if (r == -EDQUOT)
		return failure_set(failure, STATUS_QUOTA,
				   "uid %u has too many ids that are not destroyed completely yet",
				   uid);
	return r < 0 ? failure_set_fabric(failure, r, "create an id") : 0;
}

void id_own_fabric(struct id *id, struct fabric_id *fabric)
{
	id->fabric = fabric;
	fabric_id_set_owner(fabric, id->session->identity.uid, id->session->core->on_event, id);
}

int id_new(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
	   struct failure *failure)
{
	_cleanup_(id_freep) struct id *id = NULL;
	int r;

	r = decide_may_begin(session, "create_id", failure);
	if (r != 0)
		return r;
	r = id_new_empty(&id, session, handle, ps, ID_IDLE, failure);
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
	r = id_new_empty(ret, session, 0, ps, ID_REQUEST, failure);
	if (r != 0)
		return r;
	*request = *event;
	if (request->conn.private_data)
		request->conn.private_data = request->private_data;
	(*ret)->request = TAKE_PTR(request);
	(*ret)->passive = true;
	if (!record_request(*ret)) {
		*ret = id_free(*ret);
		return record_refuse(failure, "connection requests");
	}
	id_own_fabric(*ret, event->request);
	record_id(*ret);
	return 0;
}

struct id *id_free(struct id *id)
{
	if (!id)
		return NULL;
	/* In these states the QP can have been connected, so its packets can be in the network. */
	if (IN(id->state) & (IN(ID_RESPONDED) | IN(ID_ACCEPTED) | IN(ID_ESTABLISHED) |
			     IN(ID_DISCONNECTING) | IN(ID_DISCONNECTED)))
		timewait_enter(id);
	/* To destroy the id would reply, too, but a thread does that, and can be busy. */
	if (id->unconfirmed)
		fabric_id_disconnect(id->fabric);
	id_set_state(id, ID_FAILED);
	whois_remove(id);
	inquiry_free(id->inquiry);
	fabric_lookup_cancel(id->qp_check.lookup);
	if (!list_is_empty(&id->events))
		id->session->ops->forget(id->session->userdata, id);
	if (id->listener)
		asked_drop(id->listener);
	token_free(id->token);
	group_leave_all(id);
	listener_free(id->listener);
	timewait_forget(id);
	ahead_forget(&id->ahead);
	if (id->session->ending)
		fabric_id_abandon(id->fabric);
	else
		fabric_id_free(id->fabric);
	admitted_done(&id->admitted);
	tally_unref(id->tally);
	peerid_free(id->peerid);
	policy_unref(id->policy);
	table_remove(id->session, id->handle);
	id->session->core->n_ids--;
	id->row = ledger_remove_id(id->session->core->keep.ledger, id->row);
	restricted_done(&id->restricted);
	charge_done(&id->charge);
	free(id);
	return NULL;
}

void id_set_peerid(struct id *id, struct peerid *peerid)
{
	id->knows_peer = id->was_asked = true;
	id->peerid = peerid;
	record_state(id);
}

void id_forget_peerid(struct id *id)
{
	id->knows_peer = id->was_asked = false;
	id->peerid = peerid_free(id->peerid);
}

int id_qp_attr(struct id *id, enum ibv_qp_state state, struct qp_attr *ret, struct failure *failure)
{
	struct qp_attr qp = { .attr.qp_state = state };
	int r;

	if ((unsigned)state > IBV_QPS_ERR)
		return failure_set(failure, STATUS_BAD_REQUEST, "unknown QP state %d", (int)state);
	if (id_is_empty(id))
		return id_refuse_state(id, "init_qp_attr", failure);
	r = fabric_id_qp_attr(id->fabric, state, &qp.attr, &qp.mask);
	if (r < 0)
		return failure_set_fabric(failure, r, "get QP attributes for an id that is %s",
					  id_state_to_string(id->state));
	/*
	 * On the passive side the kernel fills in the traffic class that the peer chose. Replace it by the id's own.
	 */
	if (id->tos >= 0 && (qp.mask & IBV_QP_AV) && qp.attr.ah_attr.is_global)
		qp.attr.ah_attr.grh.traffic_class = (uint8_t)id->tos;
	settings_cap_retries(id, &qp);
	if (qp.attr.qp_state == IBV_QPS_RTS && (qp.mask & IBV_QP_TIMEOUT))
		id->qp_timeout = qp.attr.timeout;
	*ret = qp;
	return 0;
}
