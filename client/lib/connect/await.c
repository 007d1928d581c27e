/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "client/lib/connect/await.h"
#include "client/lib/id/idstate.h"
#include "client/lib/wire/fail.h"

int await_explain_removal(const struct rdmabroker_event *event, const char *name)
{
	if (event->status == 0)
		return fail(ENODEV, "%s: the device was removed", name);
	return fail(-event->status, "%s: the broker has ended the id: %s", name,
		    event->text ?: strerror(-event->status));
}

static int explain_bad(const struct rdmabroker_event *event, const char *name)
{
	int error;

	switch (event->type) {
	case RDMABROKER_EVENT_REJECTED:
	case RDMABROKER_EVENT_UNREACHABLE:
		if (event->rejected_by == RDMABROKER_REJECTED_BY_NOBODY)
			return fail(EHOSTUNREACH, "%s: the peer does not answer", name);
		if (event->rejected_by == RDMABROKER_REJECTED_BY_POLICY)
			return fail(ECONNREFUSED, "%s: rejected by policy of the peer's broker: %s",
				    name, event->text);
		return fail(ECONNREFUSED, "%s: rejected%s%s", name, event->text ? ": " : "",
			    event->text ?: "");
	case RDMABROKER_EVENT_DEVICE_REMOVAL:
		return await_explain_removal(event, name);
	default:
		error = event->status < 0 ? -event->status : ECONNABORTED;
		if (event->retry_after_ms > 0)
			return fail_remote(error, event->text ?: "busy", /* rule= */ "",
					   event->retry_after_ms);
		return fail(error, "%s: %s", name, event->text ?: strerror(error));
	}
}

int await_event(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		int64_t deadline, struct rdmabroker_event **ret)
{
	const char *name = call->name;
	int r;

	*ret = NULL;
	r = take_event(id->session, id, good | bad | BIT(DEVICE_REMOVAL), deadline, call, ret);
	if (r == -EAGAIN)
		return fail(ETIMEDOUT, "%s: no outcome before the timeout", name);
	if (r < 0 || good & (1ULL << (*ret)->type))
		return r;
	return explain_bad(*ret, name);
}

int await_outcome(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		  int64_t deadline)
{
	struct rdmabroker_event *event;
	int r = await_event(id, call, good, bad, deadline, &event);

	rdmabroker_free_event(event);
	return r;
}
