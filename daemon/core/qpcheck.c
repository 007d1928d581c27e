/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/id.h"
#include "core/qpcheck.h"
#include "core/resolve.h"

static void on_qp_answer(void *userdata, int answer)
{
	struct id *id = userdata;
	struct session *session = id->session;

	id->qp_check.lookup = NULL;
	id->qp_check.answer = answer;
	/* Only this request may use the result: later the QP number may belong to another QP. */
	id->qp_check.request = session->last_request;
	if (id->plan)
		id->plan->go_on(id);
	else
		session->ops->resume(session->userdata);
}

/* Returns the result of fabric_qp_belongs(); -EINPROGRESS: the request is repeated when the result is known. */
static int ask_about_qp(struct id *id, const char *device, uint32_t qpn)
{
	struct session *session = id->session;
	struct qpcheck *check = &id->qp_check;
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

int qpcheck_run(struct id *id, const char *device, uint32_t qpn, struct failure *failure)
{
	struct session *session = id->session;
	const char *doubt = identity_doubt(&session->identity);
	int r;

	if (doubt)
		return failure_set(failure, STATUS_NOT_OWNER,
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
		return failure_set_fabric(failure, r, "find out whose QP number %u of %s is", qpn,
					  device);
	}
	if (r != FABRIC_QP_OWN || !identity_is_alive(&session->identity)) {
		log_limited(
			session_log_limit(session), LOG_WARNING,
			"Session %llu, uid %u, pid %d offered QP %u of %s, which is not its own.",
			(unsigned long long)session->number, session->identity.uid,
			session->identity.pid, qpn, device);
		return failure_set(failure, STATUS_NOT_OWNER,
				   "QP number %u of %s does not belong to process %d", qpn, device,
				   session->identity.pid);
	}
	return 0;
}
