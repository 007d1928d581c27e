/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "core/admit/decide.h"
#include "core/admit/intent.h"
#include "core/admit/notify.h"
#include "core/admit/rule_settings.h"
#include "core/object/held.h"
#include "core/object/listener.h"
#include "core/object/timewait.h"
#include "core/verbs/conn.h"
#include "core/verbs/id_life.h"
#include "core/verbs/own_path.h"
#include "core/verbs/qpcheck.h"
#include "core/verbs/renew.h"
#include "core/verbs/resolve_route.h"
#include "proto/addr.h"
#include "util/clock.h"
#include "util/util.h"

/* Returns 0 or STATUS_NO_DEVICE. */
static int get_device(const struct id *id, struct fabric_id_info *info, struct failure *failure)
{
	fabric_id_get_info(id->fabric, info);
	return info->device ?
		       0 :
		       failure_set(failure, STATUS_NO_DEVICE, "id %u has no device", id->handle);
}

static int check_qp(struct id *id, uint32_t qpn, struct failure *failure)
{
	struct fabric_id_info info;
	int r = get_device(id, &info, failure);

	return r != 0 ? r : qpcheck_run(id, info.device, qpn, failure);
}

void conn_refuse(struct id *id, int r, const struct failure *failure)
{
	if (id->state != ID_MOVED)
		notify_failure(id, RDMA_CM_EVENT_CONNECT_ERROR, r, failure);
}

bool conn_is_looked_up(const struct id *id)
{
	return id->handshake.qp_check.lookup != NULL;
}

static int set_local_ece(struct id *id, const struct ibv_ece *ece, struct failure *failure)
{
	int r;

	if (!ece || ece->vendor_id == 0)
		return 0;
	r = fabric_id_set_local_ece(id->fabric, ece);
	return r < 0 ? failure_set_fabric(failure, r, "set local ECE") : 0;
}

/* VERB has failed with R, a negative errno. */
static int fail(const struct id *id, const char *verb, int r, struct failure *failure)
{
	if (r != -EOPNOTSUPP || !id_is_datagram(id))
		return failure_set_fabric(failure, r, "%s", verb);
	return failure_set_error(failure, STATUS_FABRIC, EOPNOTSUPP,
				 "%s: the device is of iWARP, which has no datagrams", verb);
}

static void turn_away(struct id *id, int r, const char *text)
{
	if (r == STATUS_DRAINING)
		listener_turn_away(id, REFUSAL_DRAINING, /* retry_after_ms= */ 0, "draining");
	else
		listener_turn_away(id, REFUSAL_DENIED, /* retry_after_ms= */ 0, text);
}

/*
 * What has to be true of a connect or accept besides its QP number. It is asked when it is requested, and again when it
 * was held back: what was true before a wait need not be true after it.
 */
static int decide_step(struct id *id, bool accept, struct failure *failure)
{
	int r = decide_may_begin(id->session, accept ? "accept" : "connect", failure);

	if (r != 0) {
		/* Reject now, so that the peer does not wait until the program rejects it. */
		if (accept)
			turn_away(id, r, "draining");
		return r;
	}
	r = accept ? renew_for_accept(id, failure) : renew_for_connect(id, failure);
	if (r == 0 && !accept)
		r = own_path_check(id, failure);
	return r != 0 ? r : qpcheck_by_rule(id, id->grant.rule, failure);
}

static int send_step(struct id *id, const struct rdma_conn_param *param, bool accept,
		     struct failure *failure)
{
	int r = accept ? fabric_id_accept(id->fabric, param) : fabric_id_connect(id->fabric, param);

	return r < 0 ? fail(id, accept ? "accept" : "connect", r, failure) : 0;
}

/* Sends it, or holds it back: then timewait.c will call conn_resume(). */
static int send_or_hold(struct id *id, const struct rdma_conn_param *param, bool accept,
			struct failure *failure)
{
	struct rdma_conn_param capped = *param;
	int r;

	rule_settings_cap_param(id, &capped);
	id->handshake.qpn = capped.qp_num;
	r = timewait_hold(id, &capped, accept);
	if (r != 0)
		return r > 0 ? 0 : failure_errno(failure, r);
	return send_step(id, &capped, accept, failure);
}

int conn_connect(struct id *id, const struct rdma_conn_param *param,
		 const struct ibv_ece *local_ece, struct failure *failure)
{
	struct id_intent intent;
	int r;

	r = resolve_route_before_connect(id, failure);
	if (r != 0)
		return r;
	if (id->state != ID_ROUTE_RESOLVED)
		return id_refuse_state(id, "connect", failure);
	intent_to_connect(&intent, id);
	/* The connect of a datagram id is a service look-up, which offers no QP to the peer. */
	if (!id_is_datagram(id))
		r = check_qp(id, param->qp_num, failure);
	if (r == 0)
		r = set_local_ece(id, local_ece, failure);
	if (r == 0)
		r = decide_step(id, /* accept= */ false, failure);
	if (r == 0)
		r = decide_admit(id->session, &intent.intent, id->grant.rule, /* pending= */ false,
				 &id->grant.admitted, failure);
	if (r != 0)
		return r;
	qpcheck_report(id, &intent.intent);
	r = send_or_hold(id, param, /* accept= */ false, failure);
	if (r != 0) {
		admitted_done(&id->grant.admitted);
		return r;
	}
	id_set_state(id, ID_CONNECTING);
	return 0;
}

static void report_accept(struct id *id)
{
	struct id_intent intent;

	if (!id->handshake.qp_check.unknown)
		return;
	intent_to_accept_id(&intent, id);
	qpcheck_report(id, &intent.intent);
}

int conn_accept(struct id *id, const struct rdma_conn_param *param, const struct ibv_ece *local_ece,
		struct failure *failure)
{
	int r;

	if (id->state != ID_REQUEST)
		return id_refuse_state(id, "accept", failure);
	r = check_qp(id, param->qp_num, failure);
	if (r == 0)
		r = set_local_ece(id, local_ece, failure);
	if (r == 0)
		r = decide_step(id, /* accept= */ true, failure);
	if (r == STATUS_DRAINING)
		id_set_state(id, ID_FAILED);
	if (r != 0)
		return r;
	report_accept(id);
	r = send_or_hold(id, param, /* accept= */ true, failure);
	if (r == 0)
		id_set_state(id, ID_ACCEPTED);
	return r;
}

static void on_owner(void *userdata, int answer)
{
	struct held *held = userdata;
	struct id *id = held->id;

	held->lookup = NULL;
	held->answer = answer;
	/* If another session has imported the id meanwhile, its process is looked up, too. */
	held->is_answered = held->asked_by == id->session->number;
	conn_resume(id);
}

/* The QP number was the client's when it was held back, and can be another process's now. */
static int check_held(struct held *held, struct failure *failure)
{
	struct id *id = held->id;
	struct session *session = id->session;
	uint32_t qpn = held->param.qp_num;
	struct fabric_id_info info;
	int r = get_device(id, &info, failure);

	if (r != 0)
		return r;
	if (!held->is_answered) {
		held->asked_by = session->number;
		held->answer = fabric_qp_belongs(&held->lookup, session->core->fabric, info.device,
						 qpn, session->identity.pid,
						 session->identity.owner, on_owner, held);
		if (held->answer == -EINPROGRESS)
			return -EINPROGRESS;
	}
	held->is_answered = false;
	return qpcheck_held(id, info.device, qpn, held->answer, failure);
}

/* What was true when HELD was held back is decided again. The client does not know, so the peer is told. */
static int decide_held(struct held *held, struct failure *failure)
{
	struct id *id = held->id;
	int r = check_held(held, failure);

	if (r == -EINPROGRESS)
		return r;
	id->handshake.request = TAKE_PTR(held->request);
	if (r != 0) {
		if (held->accept)
			turn_away(id, r, "no QP");
		return r;
	}
	r = decide_step(id, held->accept, failure);
	if (r == STATUS_NOT_OWNER && held->accept)
		turn_away(id, r, "policy has changed");
	return r;
}

void conn_resume(struct id *id)
{
	struct held *held = id->handshake.held;
	struct rdma_conn_param capped;
	struct failure failure;
	int r;

	/* The peer can have given up, or the device has gone. */
	if (id->state != ID_CONNECTING && id->state != ID_ACCEPTED) {
		held_free(held);
		id_save_state(id);
		return;
	}
	/* A QP number that had several connections can have several time waits. */
	r = timewait_hold_again(id);
	if (r > 0)
		return;
	r = r < 0 ? failure_errno(&failure, r) : decide_held(held, &failure);
	if (r == -EINPROGRESS)
		return;
	if (r == 0) {
		capped = held->param;
		rule_settings_cap_param(id, &capped);
		r = send_step(id, &capped, held->accept, &failure);
	}
	held_free(held);
	handshake_drop_request(&id->handshake);
	id_save_state(id); /* it is not held back any more */
	/*
	 * The client's request was answered with success when it was held back, so an event has to report the
	 * failure.
	 */
	if (r != 0) {
		id_set_state(id, ID_FAILED);
		notify_failure(id, RDMA_CM_EVENT_CONNECT_ERROR, r, &failure);
	}
}

int conn_notify(struct id *id, enum ibv_event_type event, struct failure *failure)
{
	int r;

	if (id_is_empty(id))
		return id_refuse_state(id, "notify", failure);
	r = fabric_id_notify(id->fabric, event);
	return r < 0 ? failure_set_fabric(failure, r, "notify") : 0;
}

int conn_establish(struct id *id, struct failure *failure)
{
	int r;

	if (id->state != ID_RESPONDED)
		return id_refuse_state(id, "establish", failure);
	r = fabric_id_establish(id->fabric);
	if (r < 0)
		return failure_set_fabric(failure, r, "establish");
	id_set_state(id, ID_ESTABLISHED);
	return 0;
}

int conn_reject(struct id *id, const void *data, size_t len, bool ece, struct failure *failure)
{
	int r;

	/* In state RESPONDED, the active side can reject the peer's response. */
	if (id->state != ID_REQUEST && id->state != ID_RESPONDED)
		return id_refuse_state(id, "reject", failure);
	/* A program must not be able to send a rejection that looks like the broker's. */
	if (len >= 4 && memcmp(data, REFUSAL_MAGIC, 4) == 0)
		return failure_set(failure, STATUS_BAD_REQUEST,
				   "reject: private data must not begin with \"" REFUSAL_MAGIC
				   "\", which is reserved for the broker");
	r = fabric_id_reject(id->fabric, data, (uint8_t)len, ece);
	if (r < 0)
		return failure_set_fabric(failure, r, "reject");
	id_set_state(id, ID_FAILED);
	return 0;
}

/* Replies to the peer's disconnect, for a client that confirms. Other clients have nothing to do. */
static int confirm(struct id *id, struct failure *failure)
{
	int r;

	if (!id->handshake.unconfirmed)
		return 0;
	r = fabric_id_disconnect(id->fabric);
	id->handshake.unconfirmed = false;
	timewait_enter(id);
	id_save_state(id);
	return r < 0 ? failure_set_fabric(failure, r, "disconnect") : 0;
}

int conn_disconnect(struct id *id, struct failure *failure)
{
	int r;

	switch (id->state) {
	case ID_IDLE:
	case ID_BOUND:
	case ID_ADDR_QUERY ... ID_ROUTE_RESOLVED:
	case ID_MOVED:
	case ID_REVOKED:
		return id_refuse_state(id, "disconnect", failure);
	case ID_DISCONNECTED:
		return confirm(id, failure);
	default:
		break; /* if there is no connection, the kernel sends nothing */
	}
	/* The peer has not received a connect or accept that is held back (timewait.h), so drop it. */
	if (id->handshake.held) {
		timewait_forget(id);
		id_set_state(id, ID_FAILED);
		return 0;
	}
	r = fabric_id_disconnect(id->fabric);
	if (r < 0)
		return failure_set_fabric(failure, r, "disconnect");
	if (id->state == ID_CONNECTING || id->state == ID_RESPONDED || id->state == ID_ACCEPTED ||
	    id->state == ID_ESTABLISHED)
		id_set_state(id, ID_DISCONNECTING);
	return 0;
}
