/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/admit/decide.h"
#include "core/object/id.h"
#include "core/verbs/qpcheck.h"
#include "proto/text.h"

static void on_qp_answer(void *userdata, int answer)
{
	struct id *id = userdata;
	struct session *session = id->session;

	id->handshake.qp_check.lookup = NULL;
	id->handshake.qp_check.answer = answer;
	session->ops->resume(session->userdata, id->handle);
}

/* Returns the result of fabric_qp_belongs(). -EINPROGRESS: on_qp_answer() will be called with the result. */
static int ask_about_qp(struct id *id, const char *device, uint32_t qpn)
{
	struct session *session = id->session;
	struct qpcheck *check = &id->handshake.qp_check;
	bool is_same = check->qpn == qpn && strcmp(check->device, device) == 0;

	/* Only the request that has asked can use the result: later the number can belong to another QP. */
	if (is_same && check->request > 0 && check->request == session->request)
		return check->lookup ? -EINPROGRESS : check->answer;
	check->lookup = fabric_lookup_cancel(check->lookup);
	check->request = session->request;
	check->qpn = qpn;
	text_copy(check->device, sizeof(check->device), device);
	check->answer = fabric_qp_belongs(&check->lookup, session->core->fabric, device, qpn,
					  session->identity.pid, session->identity.owner,
					  on_qp_answer, id);
	return check->answer;
}

/* The look-up goes by the pid, which must be the client's. */
static int check_client(const struct session *session, const char *device, uint32_t qpn,
			struct failure *failure)
{
	const char *doubt = identity_doubt(&session->identity);

	if (!doubt)
		return 0;
	return failure_set(failure, STATUS_NOT_OWNER,
			   "QP number %u of %s: cannot verify that process %d is the client: %s",
			   qpn, device, session->identity.pid, doubt);
}

static const char *why_unknown(int r)
{
	switch (r) {
	case FABRIC_QP_UNKNOWN:
		return "the kernel knows no such QP";
	case FABRIC_QP_XRC_TARGET:
		return "the kernel does not tell whose a target QP of XRC is";
	default:
		return NULL;
	}
}

/* R: the result of a look-up of QPN, from fabric_qp_belongs(). */
static int judge(struct id *id, const char *device, uint32_t qpn, int r, struct failure *failure)
{
	struct session *session = id->session;

	if (r < 0) {
		log_limited(session_log_limit(session), LOG_ERR,
			    "Session %llu: cannot find the owner of QP %u of %s: %s.",
			    (unsigned long long)session->number, qpn, device, strerror(-r));
		return failure_set_fabric(failure, r, "find the owner of QP number %u of %s", qpn,
					  device);
	}
	/* Only who accepts has a target QP. */
	if (r == FABRIC_QP_FOREIGN || !identity_is_alive(&session->identity) ||
	    (r == FABRIC_QP_XRC_TARGET && !id->handshake.passive)) {
		log_limited(
			session_log_limit(session), LOG_WARNING,
			"Session %llu, uid %u, pid %d offered QP %u of %s, which does not belong "
			"to it.",
			(unsigned long long)session->number, session->identity.uid,
			session->identity.pid, qpn, device);
		return failure_set(failure, STATUS_NOT_OWNER,
				   "QP number %u of %s does not belong to process %d", qpn, device,
				   session->identity.pid);
	}
	id->handshake.qp_check.unknown = why_unknown(r);
	return 0;
}

int qpcheck_run(struct id *id, const char *device, uint32_t qpn, struct failure *failure)
{
	int r;

	id->handshake.qp_check.unknown = NULL;
	r = check_client(id->session, device, qpn, failure);
	if (r != 0)
		return r;
	r = ask_about_qp(id, device, qpn);
	return r == -EINPROGRESS ? r : judge(id, device, qpn, r, failure);
}

int qpcheck_held(struct id *id, const char *device, uint32_t qpn, int answer,
		 struct failure *failure)
{
	/* Another session can have imported the id. */
	int r = check_client(id->session, device, qpn, failure);

	id->handshake.qp_check.unknown = NULL;
	id->handshake.qp_check.qpn = qpn;
	text_copy(id->handshake.qp_check.device, sizeof(id->handshake.qp_check.device), device);
	return r != 0 ? r : judge(id, device, qpn, answer, failure);
}

int qpcheck_by_rule(struct id *id, const struct policy_rule *rule, struct failure *failure)
{
	const struct qpcheck *check = &id->handshake.qp_check;
	struct session *session = id->session;

	if (!check->unknown || rule->settings.qp == POLICY_QP_RESERVED)
		return 0;
	log_limited(
		session_log_limit(session), LOG_WARNING,
		"Session %llu, uid %u, pid %d offered QP %u of %s: %s. %s:%u would accept it with "
		"\"qp reserved\".",
		(unsigned long long)session->number, session->identity.uid, session->identity.pid,
		check->qpn, check->device, check->unknown, rule->file, rule->line);
	return failure_set(failure, STATUS_NOT_OWNER,
			   "QP number %u of %s does not belong to process %d: %s; only a rule with "
			   "\"qp reserved\" allows one",
			   check->qpn, check->device, session->identity.pid, check->unknown);
}

void qpcheck_report(struct id *id, const struct intent *intent)
{
	const struct qpcheck *check = &id->handshake.qp_check;
	struct policy_verdict verdict = { .answer = POLICY_ALLOW, .rule = id->grant.rule };
	struct intent addition = *intent;
	char text[192];

	if (!check->unknown)
		return;
	snprintf(text, sizeof(text), "qp reserved: QP %u of %s: %s", check->qpn, check->device,
		 check->unknown);
	verdict.reason = text;
	addition.is_addition = true;
	decide_audit(id->session, &addition, &verdict, /* overflow= */ NULL);
}
