/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "core/id.h"
#include "proto/addr.h"
#include "util/clock.h"

/* Connections: the active side from policy's decision on, the passive side from the connection request on. */

void wish_to_connect(struct id_wish *ret, struct id *id)
{
	struct policy_question *question = &ret->wish.question;

	ret->wish = (struct wish){
		.question = { .operation = POLICY_CONNECT, .port_space = id->ps },
		.what = "connect to",
		.id = id,
	};
	fabric_id_get_info(id->fabric, &ret->info);
	id_fill_question(&ret->info, question);
	question->port = question->peer ? addr_port(question->peer) : -1;
	ret->wish.addrs[0] = question->peer;
}

int conn_decide(struct id *id, bool early, const struct sockaddr *src, const struct sockaddr *dst,
		struct policy_verdict *ret)
{
	struct policy_question *question;
	char object[WISH_OBJECT_LEN];
	struct id_wish wish;

	wish_to_connect(&wish, id);
	question = &wish.wish.question;
	question->early = early;
	if (src)
		question->local = src;
	if (dst) {
		question->peer = dst;
		question->port = addr_port(dst);
		wish.wish.addrs[0] = dst;
	}
	decide(id->session, &wish.wish, ret);
	if (ret->answer == POLICY_REJECT)
		return failure_set_denied(&id->session->failure, ret,
					  "uid %u may not connect to %s", id->session->identity.uid,
					  wish_object(&wish.wish, object));
	return 0;
}

int conn_choose_tos(const struct id *id, const struct policy_rule *rule)
{
	const struct policy_settings *settings = &rule->settings;

	if (settings->tos >= 0)
		return settings->tos;
	if (id->tos_asked >= 0 && settings->tos_max >= 0 && id->tos_asked > settings->tos_max)
		return settings->tos_max;
	return id->tos_asked >= 0 ? id->tos_asked : id->session->core->settings.tos;
}

static int apply_tos(struct id *id)
{
	int tos = conn_choose_tos(id, id->rule), r;

	/* An id with a spare's route already has the TOS that the route was resolved with. */
	if (tos < 0 || tos == id->tos)
		return 0;
	r = fabric_id_set_option(id->fabric, RDMA_OPTION_ID_TOS, tos);
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "set TOS %d", tos);
	id->tos = tos;
	return 0;
}

static int apply_ack_timeout(struct id *id)
{
	int ack_timeout = id->rule->settings.ack_timeout, r;

	/* Datagrams are not acknowledged. */
	if (ack_timeout < 0 || id_is_datagram(id))
		return 0;
	r = fabric_id_set_option(id->fabric, RDMA_OPTION_ID_ACK_TIMEOUT, ack_timeout);
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "set ACK_TIMEOUT %d",
					  ack_timeout);
	id->ack_timeout = ack_timeout;
	return 0;
}

int conn_apply_settings(struct id *id)
{
	int r;

	/* A listener's rule does not apply to connections: each connection request gets its own decision. */
	if (!id->rule || id->listener)
		return 0;
	r = apply_tos(id);
	return r != 0 ? r : apply_ack_timeout(id);
}

/*
 * The value 255, "as many as the device can", is reduced to the rule's limit too. A library that knows the
 * limits has already sent an exact number.
 */
static void cap_param(const struct id *id, struct rdma_conn_param *param)
{
	const struct policy_settings *caps = id_get_caps(id);

	if (!caps)
		return;
#define CAP(field)                                                  \
	do {                                                        \
		if (caps->field >= 0 && param->field > caps->field) \
			param->field = (uint8_t)caps->field;        \
	} while (0)
	CAP(responder_resources);
	CAP(initiator_depth);
	CAP(retry_count);
	CAP(rnr_retry_count);
#undef CAP
}

int conn_admit(struct id *id, const struct policy_verdict *verdict)
{
	int r;

	if (id->reuseaddr && verdict->rule->settings.reuseaddr == POLICY_REUSEADDR_NO)
		return failure_set(&id->session->failure, STATUS_DENIED,
				   "id %u is bound with REUSEADDR, which %s:%u does not allow",
				   id->handle, verdict->rule->file, verdict->rule->line);
	if (!id->reuseaddr && verdict->rule->settings.reuseaddr == POLICY_REUSEADDR_YES) {
		r = fabric_id_set_option(id->fabric, RDMA_OPTION_ID_REUSEADDR, 1);
		if (r < 0)
			return failure_set_fabric(&id->session->failure, r, "set REUSEADDR");
		id->reuseaddr = true;
	}
	id_set_rule(id, verdict->rule);
	/*
	 * The traffic class becomes part of the path when the route is resolved, and cannot be changed after
	 * that.
	 */
	return id->state == ID_ADDR_RESOLVED ? conn_apply_settings(id) : apply_ack_timeout(id);
}

static void on_qp_answer(void *userdata, int answer)
{
	struct id *id = userdata;
	struct session *session = id->session;

	id->qp_check.lookup = NULL;
	id->qp_check.answer = answer;
	/* No later request may use the result: by then the number may be another QP's. */
	id->qp_check.request = session->last_request;
	if (id->plan)
		conn_go_on(id);
	else
		session->ops->resume(session->userdata);
}

/* As fabric_qp_belongs(); -EINPROGRESS: the request is repeated when the result is known. */
static int ask_about_qp(struct id *id, const char *device, uint32_t qpn)
{
	struct session *session = id->session;
	struct qp_check *check = &id->qp_check;
	bool is_same = check->qpn == qpn && strcmp(check->device, device) == 0;

	if (is_same && check->lookup)
		return -EINPROGRESS;
	if (is_same && check->request > 0 && check->request == session->last_request)
		return check->answer;
	check->lookup = fabric_lookup_cancel(check->lookup);
	check->request = 0;
	check->qpn = qpn;
	snprintf(check->device, sizeof(check->device), "%s", device);
	return fabric_qp_belongs(&check->lookup, session->core->fabric, device, qpn,
				 session->identity.pid, session->identity.uid, on_qp_answer, id);
}

/* The kernel would connect any process's QP, so the broker checks whose it is. */
int conn_check_qp(struct id *id, const char *device, uint32_t qpn)
{
	struct session *session = id->session;
	const char *doubt = identity_doubt(&session->identity);
	int r;

	if (doubt)
		return failure_set(&session->failure, STATUS_NOT_OWNER,
				   "QP number %u of %s: it is not known that process %d is the "
				   "client: %s",
				   qpn, device, session->identity.pid, doubt);
	r = ask_about_qp(id, device, qpn);
	if (r == -EINPROGRESS)
		return r;
	if (r < 0) {
		log_limited(session_log_limit(session), LOG_ERR,
			    "Session %llu: cannot find out whose QP %u of %s is: %s.",
			    (unsigned long long)session->number, qpn, device, strerror(-r));
		return failure_set_fabric(&session->failure, r,
					  "find out whose QP number %u of %s is", qpn, device);
	}
	if (r == 0 || !identity_is_alive(&session->identity)) {
		log_limited(
			session_log_limit(session), LOG_WARNING,
			"Session %llu, uid %u, pid %d offered QP %u of %s, which is not its own.",
			(unsigned long long)session->number, session->identity.uid,
			session->identity.pid, qpn, device);
		return failure_set(
			&session->failure, STATUS_NOT_OWNER,
			"QP number %u of %s does not belong to process %d, or is still in "
			"RESET: move it to INIT first",
			qpn, device, session->identity.pid);
	}
	return 0;
}

static int check_qp(struct id *id, uint32_t qpn)
{
	struct fabric_id_info info;

	fabric_id_get_info(id->fabric, &info);
	if (!info.device)
		return failure_set(&id->session->failure, STATUS_NO_DEVICE, "id %u has no device",
				   id->handle);
	return conn_check_qp(id, info.device, qpn);
}

static int set_local_ece(struct id *id, const struct ibv_ece *ece)
{
	int r;

	if (!ece || ece->vendor_id == 0)
		return 0;
	r = fabric_id_set_local_ece(id->fabric, ece);
	return r < 0 ? failure_set_fabric(&id->session->failure, r, "set local ECE") : 0;
}

int id_connect(struct id *id, const struct rdma_conn_param *param, const struct ibv_ece *local_ece)
{
	/* An id with a plan connects by itself. */
	return id->plan ? id_refuse_state(id, "connect") : conn_connect(id, param, local_ece);
}

int conn_connect(struct id *id, const struct rdma_conn_param *param,
		 const struct ibv_ece *local_ece)
{
	struct rdma_conn_param capped = *param;
	struct id_wish wish;
	int r;

	if (id->state != ID_ROUTE_RESOLVED)
		return id_refuse_state(id, "connect");
	r = session_take_new(id->session, "connect");
	/* The look-up of a datagram id offers no QP to the peer. */
	if (r == 0 && !id_is_datagram(id))
		r = check_qp(id, param->qp_num);
	if (r == 0)
		r = set_local_ece(id, local_ece);
	if (r == 0)
		r = id_renew_connect(id);
	if (r != 0)
		return r;
	wish_to_connect(&wish, id);
	r = decide_admit(id->session, &wish.wish, id->rule, id->tally, /* pending= */ false,
			 &id->admitted);
	if (r != 0)
		return r;
	cap_param(id, &capped);
	id->qpn = capped.qp_num;
	r = timewait_hold(id, &capped, /* accept= */ false);
	if (r == 0) {
		r = fabric_id_connect(id->fabric, &capped);
		if (r < 0)
			r = failure_set_fabric(&id->session->failure, r, "connect");
	} else if (r > 0) {
		r = 0; /* held back, and sent later */
	}
	if (r != 0) {
		admitted_done(&id->admitted);
		return r;
	}
	id_set_state(id, ID_CONNECTING);
	return 0;
}

int id_accept(struct id *id, const struct rdma_conn_param *param, const struct ibv_ece *local_ece)
{
	struct rdma_conn_param capped = *param;
	int r;

	if (id->state != ID_REQUEST)
		return id_refuse_state(id, "accept");
	r = session_take_new(id->session, "accept");
	if (r != 0) {
		/* Reject at once, so that the peer need not wait for the program to do so. */
		listener_turn_away(id, REFUSAL_DRAINING, /* retry_after_ms= */ 0, "draining");
		id_set_state(id, ID_FAILED);
		return r;
	}
	r = check_qp(id, param->qp_num);
	if (r == 0)
		r = set_local_ece(id, local_ece);
	if (r == 0)
		r = id_renew_accept(id);
	if (r != 0)
		return r;
	cap_param(id, &capped);
	id->qpn = capped.qp_num;
	r = timewait_hold(id, &capped, /* accept= */ true);
	if (r == 0) {
		r = fabric_id_accept(id->fabric, &capped);
		if (r < 0)
			return failure_set_fabric(&id->session->failure, r, "accept");
	}
	if (r < 0)
		return r;
	id_set_state(id, ID_ACCEPTED);
	return 0;
}

void conn_resume(struct id *id, const struct rdma_conn_param *param, bool accept)
{
	struct rdma_conn_param capped = *param;
	int r;

	/* The QP number may be in time wait after more than one connection. */
	r = timewait_hold(id, param, accept);
	if (r > 0)
		return;
	if (r == 0)
		r = accept ? id_renew_accept(id) : id_renew_connect(id);
	if (r == 0) {
		cap_param(id, &capped);
		r = accept ? fabric_id_accept(id->fabric, &capped) :
			     fabric_id_connect(id->fabric, &capped);
	}
	free(id->request);
	id->request = NULL;
	/* The client's request was answered with success, so the failure is reported as an event. */
	if (r != 0) {
		id_set_state(id, ID_FAILED);
		conn_tell_failure(id, RDMA_CM_EVENT_CONNECT_ERROR, r);
	}
}

int id_notify(struct id *id, enum ibv_event_type event)
{
	int r;

	if (id_is_empty(id))
		return id_refuse_state(id, "notify");
	r = fabric_id_notify(id->fabric, event);
	return r < 0 ? failure_set_fabric(&id->session->failure, r, "notify") : 0;
}

int id_establish(struct id *id)
{
	int r;

	if (id->state != ID_RESPONDED)
		return id_refuse_state(id, "establish");
	r = fabric_id_establish(id->fabric);
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "establish");
	id_set_state(id, ID_ESTABLISHED);
	return 0;
}

int id_reject(struct id *id, const void *data, size_t len, bool ece)
{
	int r;

	/* The active side can reject the peer's response. */
	if (id->state != ID_REQUEST && id->state != ID_RESPONDED)
		return id_refuse_state(id, "reject");
	/* A program must not be able to imitate a rejection by its broker. */
	if (len >= 4 && memcmp(data, REFUSAL_MAGIC, 4) == 0)
		return failure_set(&id->session->failure, STATUS_BAD_REQUEST,
				   "reject: private data that begins with \"" REFUSAL_MAGIC
				   "\" is the broker's own");
	r = fabric_id_reject(id->fabric, data, (uint8_t)len, ece);
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "reject");
	id_set_state(id, ID_FAILED);
	return 0;
}

int id_disconnect(struct id *id)
{
	int r;

	switch (id->state) {
	case ID_IDLE:
	case ID_BOUND:
	case ID_ADDR_QUERY:
	case ID_ADDR_RESOLVED:
	case ID_ROUTE_QUERY:
	case ID_ROUTE_RESOLVED:
	case ID_MOVED:
	case ID_REVOKED:
		return id_refuse_state(id, "disconnect");
	case ID_DISCONNECTED:
		return 0; /* nothing is left to do */
	default:
		break; /* if there is no connection, the kernel does nothing and returns success */
	}
	/* The connect or accept is held back: the peer knows nothing of it yet. */
	if (id->held) {
		timewait_forget(id);
		id_set_state(id, ID_FAILED);
		return 0;
	}
	r = fabric_id_disconnect(id->fabric);
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "disconnect");
	if (id->state == ID_CONNECTING || id->state == ID_RESPONDED || id->state == ID_ACCEPTED ||
	    id->state == ID_ESTABLISHED)
		id_set_state(id, ID_DISCONNECTING);
	return 0;
}
