/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>

#include "client/lib/connect/await.h"
#include "client/lib/connect/connparam.h"
#include "client/lib/connect/retry.h"
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/qpstate.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"

/*
 * The active side of a connection: connect, alone or with the resolution before it, and the forms that wait for the
 * peer's response.
 */

static int connect_id(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		      struct call *call, int timeout_ms)
{
	REQUEST(request, m, Connect, CONNECT, connect);
	static const struct step step = {
		.name = "connect",
		.outcomes = BIT(CONNECT_RESPONSE) | BIT(ESTABLISHED),
		.from = 1 << STAGE_ROUTE_RESOLVED,
		.to = STAGE_CONNECTING,
	};
	struct rdmabroker_conn_param p;
	Rdmabroker__ConnParam out;
	Rdmabroker__Ece ece;
	int r = connparam_prepare(id, "connect", param, RDMABROKER_CONNECT_DATA_MAX,
				  RDMABROKER_LOOKUP_DATA_MAX, &p);

	if (r == 0 && id->qp && !idstate_is_datagram(id))
		r = qpstate_query_ece(id, &id->local_ece);
	if (r < 0)
		return r;
	message_put_conn_param(&out, &p);
	m.id = id->handle;
	m.param = &out;
	m.local_ece = message_put_ece(&ece, &id->local_ece);
	/* The broker has resolved the route in advance, but the program has not requested the route yet. */
	if (idstate_read(id, &id->routed))
		return fail(EINVAL, "connect: the route is not resolved");
	return idcall_step(id, &step, call, &request, timeout_ms);
}

int rdmabroker_connect(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param)
{
	return connect_id(id, param, NULL, 0);
}

static void keep(struct rdmabroker_event **place, struct rdmabroker_event *event)
{
	rdmabroker_free_event(*place);
	*place = event;
}

static int connect_once(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			int64_t deadline)
{
	struct rdmabroker_event *event;
	struct call call;
	int r = connect_id(id, param, &call, deadline_timeout_ms(deadline));

	if (r < 0)
		return r;
	r = await_event(id, &call, BIT(ESTABLISHED) | BIT(CONNECT_RESPONSE),
			BIT(REJECTED) | BIT(UNREACHABLE) | BIT(CONNECT_ERROR), deadline, &event);
	if (!event)
		return r;
	if (r == 0)
		keep(&id->response, event);
	else if (event->rejected_by != RDMABROKER_REJECTED_BY_NOBODY)
		keep(&id->reject, event);
	else
		rdmabroker_free_event(event);
	return r;
}

/*
 * Retries after stale and busy rejects, see retry.h. A reject that is retried leaves the QP as it is, see
 * id->retries.
 */
int rdmabroker_connect_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			    int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	unsigned stale_tries = 0;
	int r, delay_ms;

	for (;;) {
		id->retries = retry_get_allowed(id, stale_tries);
		r = connect_once(id, param, deadline);
		delay_ms = r < 0 ? retry_get_delay_ms(id, r, &stale_tries) : -1;
		id->retries = 0;
		if (delay_ms < 0)
			return r;
		if (deadline_left(deadline) <= delay_ms)
			break;
		poll(NULL, 0, delay_ms);
		/* -EBUSY is from this host's broker, and leaves the id as it was. */
		if (r == -EBUSY)
			continue;
		r = retry_renew_id(id, deadline);
		if (r < 0)
			break;
	}
	if (r != -EBUSY)
		qpstate_to_error(id);
	return r;
}

const struct rdmabroker_event *rdmabroker_get_response_event(const struct rdmabroker_id *id)
{
	return id->response;
}

const struct rdmabroker_event *rdmabroker_get_reject_event(const struct rdmabroker_id *id)
{
	return id->reject;
}
