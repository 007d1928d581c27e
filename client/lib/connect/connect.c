/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#include "client/lib/connect/connparam.h"
#include "client/lib/event/lifetime.h"
#include "client/lib/event/rejected.h"
#include "client/lib/event/take.h"
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

#define STALE_TRIES 5
#define STALE_PAUSE_MS 10
/* 12 days: with the jitter the delay still fits an int. */
#define RETRY_AFTER_MAX_MS (INT_MAX / 2)

static int connect_id(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		      struct call *call, int timeout_ms)
{
	ID_REQUEST(request, m, Connect, CONNECT, connect, id);
	static const struct step step = {
		.name = "connect",
		.outcomes = BIT(CONNECT_RESPONSE) | BIT(ESTABLISHED),
		.from = 1 << STAGE_ROUTE_RESOLVED,
		.to = STAGE_CONNECTING,
	};
	Rdmabroker__ConnParam out;
	Rdmabroker__Ece ece;
	int r = connparam_prepare(id, "connect", param, RDMABROKER_CONNECT_DATA_MAX,
				  RDMABROKER_LOOKUP_DATA_MAX, &out);

	if (r == 0 && id->qp && !idstate_is_datagram(id))
		r = qpstate_query_ece(id, &id->local_ece);
	if (r < 0)
		return r;
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
	r = take_outcome_event(id, &call, BIT(ESTABLISHED) | BIT(CONNECT_RESPONSE),
			       BIT(REJECTED) | BIT(UNREACHABLE) | BIT(CONNECT_ERROR), deadline,
			       &event);
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

/* The random delay keeps clients that were rejected together from retrying together. */
static int with_jitter(unsigned ms)
{
	if (ms > RETRY_AFTER_MAX_MS)
		ms = RETRY_AFTER_MAX_MS;
	return (int)(ms + 1 + arc4random_uniform(ms / 4 + 2));
}

/* The delay in ms before a retry, after a connect that failed with R; -1: do not retry. */
static int get_delay_ms(const struct rdmabroker_id *id, int r, unsigned *stale_tries)
{
	if (r == -EBUSY && id->retries & RETRY_BUSY)
		return with_jitter(rdmabroker_last_failure()->retry_after_ms);
	if (r != -ECONNREFUSED || !id->reject || !rejected_is_retried(id, id->reject))
		return -1;
	if (rejected_is_busy(id->reject))
		return with_jitter(id->reject->retry_after_ms);
	++*stale_tries;
	return STALE_PAUSE_MS;
}

static int set_options(struct rdmabroker_id *id)
{
	int r = 0;

	for (int i = 0; i < IDSTATE_OPTIONS && r == 0; i++)
		if (id->options[i] >= 0)
			r = rdmabroker_set_option(id, idstate_option(i), id->options[i]);
	return r;
}

/*
 * After a reject the kernel's id cannot connect again. A retry needs a new one, with the same options and addresses;
 * the program's id and its QP are kept.
 */
static int renew_id(struct rdmabroker_id *id, int64_t deadline)
{
	struct sockaddr_storage local = id->local, peer = id->peer, src = id->src;
	int r;

	lifetime_give_up(id, 0);
	r = lifetime_create(id);
	if (r == 0)
		r = set_options(id);
	if (r == 0 && id->bound)
		r = rdmabroker_bind_addr(id, (struct sockaddr *)&local);
	if (r == 0)
		r = rdmabroker_resolve_wait(
			id, src.ss_family && !id->bound ? (struct sockaddr *)&src : NULL,
			(struct sockaddr *)&peer, deadline_timeout_ms(deadline));
	return r;
}

/*
 * Retries after two kinds of reject, which leave the QP as it is, see id->retries. Stale: the peer still has an earlier
 * connection of this QP number, and soon drops it. Busy: the broker of the peer or of this host rejects for a time; only
 * with RDMABROKER_RETRY_BUSY.
 */
int rdmabroker_connect_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			    int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	unsigned stale_tries = 0;
	int r, delay_ms;

	for (;;) {
		id->retries = (stale_tries < STALE_TRIES ? RETRY_STALE : 0) |
			      (id->session->flags & RDMABROKER_RETRY_BUSY ? RETRY_BUSY : 0);
		r = connect_once(id, param, deadline);
		delay_ms = r < 0 ? get_delay_ms(id, r, &stale_tries) : -1;
		id->retries = 0;
		if (delay_ms < 0)
			return r;
		if (deadline_left(deadline) <= delay_ms)
			break;
		poll(NULL, 0, delay_ms);
		/* -EBUSY is from this host's broker, and leaves the id as it was. */
		if (r == -EBUSY)
			continue;
		r = renew_id(id, deadline);
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
