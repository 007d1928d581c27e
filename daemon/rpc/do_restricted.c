/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/restriction.h"
#include "core/verbs/restrict.h"
#include "core/verbs/session_life.h"
#include "rpc/call.h"
#include "rpc/control.h"
#include "rpc/published.h"

/* Requests that restrict a session, and those that give a restricted session, or its restrictions, to others. */

int do_restrict_session(struct call *call)
{
	const Rdmabroker__RestrictSession *m = call->request->restrict_session;

	return restrict_session(call->session, m->rules, m->max_ids, &call->failure);
}

int do_publish_socket(struct call *call)
{
	Rdmabroker__PublishSocketResult *result = SPACE(call, Rdmabroker__PublishSocketResult);
	const char *path;
	int r = published_sockets_add(call->control->published_sockets, call->session, &path,
				      &call->failure);

	if (r != 0)
		return r;
	rdmabroker__publish_socket_result__init(result);
	result->path = (char *)path;
	return REPLY(call, publish_socket, PUBLISH_SOCKET, result);
}

int do_release_session(struct call *call)
{
	int r = session_release(call->session, &call->failure);

	if (r == 0)
		call->progress->stage = REQUEST_GREETING;
	return r;
}

/*
 * The socket becomes that of a new client, with an identity of its own, so nobody who has a copy of the released one,
 * and nobody in between, can use the new session.
 */
int do_adopt_session(struct call *call)
{
	int r;

	if (!session_is_released(call->session))
		return failure_set(&call->failure, STATUS_BAD_STATE,
				   "adopt: the session was not released");
	if (call->fd < 0)
		return bad_request(call, "adopt: the descriptor is missing");
	r = call->control->adopt(call->control->server, call->fd,
				 session_get_restriction(call->session), &call->failure);
	if (r == 0)
		call->progress->stage = REQUEST_CLOSING;
	return r;
}
