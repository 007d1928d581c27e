/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/id.h"
#include "util/addr.h"

/* Connections: the active side from the look-up on, the passive side from the request on. */

static unsigned cap_timeout(struct id *id, unsigned timeout_ms)
{
	unsigned cap = id->session->core->settings.resolve_timeout_ms;

	return timeout_ms == 0 || timeout_ms > cap ? cap : timeout_ms;
}

static int decide_connect(struct id *id, bool early, const struct sockaddr *src,
			  const struct sockaddr *dst, struct policy_verdict *ret)
{
	struct fabric_id_info info;
	struct policy_question question = {
		.operation = POLICY_CONNECT,
		.early = early,
		.port_space = id->ps,
	};
	char addr[ADDR_STRLEN];

	fabric_id_get_info(id->fabric, &info);
	id_fill_question(&info, &question);
	if (src)
		question.local = src;
	if (dst)
		question.peer = dst;
	question.port = addr_port(question.peer);
	addr_to_string(question.peer, addr);
	session_decide(id->session, &question, ret, "connect to", addr);
	if (ret->answer == POLICY_REJECT)
		return failure_set_denied(&id->session->failure, ret,
					  "uid %u may not connect to %s", id->session->identity.uid,
					  addr);
	return 0;
}

int id_resolve_addr(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		    unsigned timeout_ms)
{
	struct policy_verdict verdict;
	char text[ADDR_STRLEN];
	int r;

	if (id->state != ID_IDLE && id->state != ID_BOUND)
		return id_refuse_state(id, "resolve_addr");
	if (src && id->state == ID_BOUND)
		return failure_set(&id->session->failure, STATUS_BAD_STATE,
				   "resolve_addr: id %u is bound already", id->handle);
	r = decide_connect(id, true, src, dst, &verdict);
	if (r != 0)
		return r;
	if (src && addr_port(src) > 0) {
		r = id_bind(id, src);
		if (r != 0)
			return r;
		src = NULL;
	}
	r = fabric_id_resolve_addr(id->fabric, src, dst, (int)cap_timeout(id, timeout_ms));
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "resolve %s",
					  addr_to_string(dst, text));
	id_set_state(id, ID_ADDR_QUERY);
	return 0;
}

int conn_admit(struct id *id)
{
	struct policy_verdict verdict;
	int r;

	r = decide_connect(id, false, NULL, NULL, &verdict);
	if (r != 0)
		return r;
	if (id->reuseaddr && verdict.rule->settings.reuseaddr == POLICY_REUSEADDR_NO)
		return failure_set(&id->session->failure, STATUS_DENIED,
				   "id %u is bound with REUSEADDR, which %s:%u does not allow",
				   id->handle, verdict.rule->file, verdict.rule->line);
	if (!id->reuseaddr && verdict.rule->settings.reuseaddr == POLICY_REUSEADDR_YES) {
		r = fabric_id_set_option(id->fabric, RDMA_OPTION_ID_REUSEADDR, 1);
		if (r < 0)
			return failure_set_fabric(&id->session->failure, r, "set REUSEADDR");
		id->reuseaddr = true;
	}
	id_set_rule(id, verdict.rule);
	id->tos = id_choose_tos(id, verdict.rule);
	/* Before the route is resolved: there the traffic class goes into the path. */
	if (id->tos >= 0) {
		r = fabric_id_set_option(id->fabric, RDMA_OPTION_ID_TOS, id->tos);
		if (r < 0)
			return failure_set_fabric(&id->session->failure, r, "set TOS %d", id->tos);
	}
	return 0;
}

int id_resolve_route(struct id *id, unsigned timeout_ms)
{
	int r;

	if (id->state != ID_ADDR_RESOLVED)
		return id_refuse_state(id, "resolve_route");
	r = fabric_id_resolve_route(id->fabric, (int)cap_timeout(id, timeout_ms));
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "resolve the route");
	id_set_state(id, ID_ROUTE_QUERY);
	return 0;
}

/* The kernel would connect anybody's QP; whose it is, is for us to check. */
static int check_qp(struct id *id, uint32_t qpn)
{
	struct session *session = id->session;
	struct fabric_id_info info;
	int r;

	fabric_id_get_info(id->fabric, &info);
	if (!info.device)
		return failure_set(&session->failure, STATUS_NO_DEVICE, "id %u has no device",
				   id->handle);
	r = fabric_qp_belongs(session->core->fabric, info.device, qpn, session->identity.pid);
	if (r < 0) {
		log_limited(session_log_limit(session), LOG_ERR,
			    "Session %llu: cannot find out whose QP %u of %s is: %s.",
			    (unsigned long long)session->number, qpn, info.device, strerror(-r));
		return failure_set_fabric(&session->failure, r,
					  "find out whose QP number %u of %s is", qpn, info.device);
	}
	if (r == 0 || !identity_is_alive(&session->identity)) {
		log_limited(
			session_log_limit(session), LOG_WARNING,
			"Session %llu, uid %u, pid %d offered QP %u of %s, which is not its own.",
			(unsigned long long)session->number, session->identity.uid,
			session->identity.pid, qpn, info.device);
		return failure_set(&session->failure, STATUS_NOT_OWNER,
				   "QP number %u of %s does not belong to process %d", qpn,
				   info.device, session->identity.pid);
	}
	return 0;
}

int id_connect(struct id *id, struct rdma_conn_param *param)
{
	int r;

	if (id->state != ID_ROUTE_RESOLVED)
		return id_refuse_state(id, "connect");
	r = check_qp(id, param->qp_num);
	if (r != 0)
		return r;
	r = fabric_id_connect(id->fabric, param);
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "connect");
	id_set_state(id, ID_CONNECTING);
	return 0;
}

int id_accept(struct id *id, struct rdma_conn_param *param)
{
	int r;

	if (id->state != ID_REQUEST)
		return id_refuse_state(id, "accept");
	r = check_qp(id, param->qp_num);
	if (r != 0)
		return r;
	r = fabric_id_accept(id->fabric, param);
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "accept");
	id_set_state(id, ID_ACCEPTED);
	return 0;
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

int id_reject(struct id *id, const void *data, size_t len)
{
	int r;

	if (id->state != ID_REQUEST)
		return id_refuse_state(id, "reject");
	/* Else a program could speak in its broker's name. */
	if (len >= 4 && memcmp(data, REFUSAL_MAGIC, 4) == 0)
		return failure_set(&id->session->failure, STATUS_BAD_REQUEST,
				   "reject: private data that begins with \"" REFUSAL_MAGIC
				   "\" is the broker's own");
	r = fabric_id_reject(id->fabric, data, (uint8_t)len);
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "reject");
	id_set_state(id, ID_FAILED);
	return 0;
}

int id_disconnect(struct id *id)
{
	int r;

	switch (id->state) {
	case ID_CONNECTING:
	case ID_RESPONDED:
	case ID_ACCEPTED:
	case ID_ESTABLISHED:
	case ID_DISCONNECTED: /* on the passive side this answers the peer's disconnect */
		break;
	default:
		return id_refuse_state(id, "disconnect");
	}
	r = fabric_id_disconnect(id->fabric);
	if (r < 0)
		return failure_set_fabric(&id->session->failure, r, "disconnect");
	if (id->state != ID_DISCONNECTED)
		id_set_state(id, ID_DISCONNECTING);
	return 0;
}
