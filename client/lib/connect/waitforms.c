/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "client/lib/connect/await.h"
#include "client/lib/connect/handshake.h"
#include "client/lib/connect/prepare.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/multicast.h"
#include "client/lib/id/qpstate.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"

/* The calls that wait for an event of one id; connect_wait is in connect.c. */

int rdmabroker_resolve_addr_wait(struct rdmabroker_id *id, const struct sockaddr *src,
				 const struct sockaddr *dst, int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct call call;
	int r = prepare_resolve_addr(id, src, dst, timeout_ms, /* route= */ false, &call);

	return r < 0 ? r : await_outcome(id, &call, BIT(ADDR_RESOLVED), BIT(ADDR_ERROR), deadline);
}

int rdmabroker_resolve_wait(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct call call;
	int r = prepare_resolve_addr(id, src, dst, timeout_ms, /* route= */ true, &call);

	if (r == 0)
		r = await_outcome(id, &call, BIT(ADDR_RESOLVED), BIT(ADDR_ERROR), deadline);
	if (r == 0)
		r = await_outcome(id, &call, BIT(ROUTE_RESOLVED), BIT(ROUTE_ERROR), deadline);
	return r;
}

int rdmabroker_resolve_route_wait(struct rdmabroker_id *id, int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct call call;
	int r = prepare_resolve_route(id, timeout_ms, &call);

	return r < 0 ? r :
		       await_outcome(id, &call, BIT(ROUTE_RESOLVED), BIT(ROUTE_ERROR), deadline);
}

int rdmabroker_accept_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			   int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct rdmabroker_event *event;
	struct call call;
	int r = handshake_accept(id, param, &call, timeout_ms);

	if (r < 0 || idstate_is_datagram(id))
		return r;
	/*
	 * The peer's confirmation can get lost. If the peer disconnects soon after, that is the first that comes. But it
	 * was connected, and what it has sent has arrived.
	 */
	r = await_event(id, &call, BIT(ESTABLISHED) | BIT(DISCONNECTED),
			BIT(CONNECT_ERROR) | BIT(REJECTED) | BIT(UNREACHABLE), deadline, &event);
	if (r == 0 && event->status < 0)
		r = fail(-event->status, "%s: %s", call.name,
			 event->text ?: strerror(-event->status));
	rdmabroker_free_event(event);
	if (call.state == CALL_REFUSED)
		qpstate_to_error(id);
	return r;
}

int rdmabroker_disconnect_wait(struct rdmabroker_id *id, int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct call call;
	int r = handshake_disconnect(id, &call, timeout_ms);

	if (r != 0)
		return r < 0 ? r : 0;
	return await_outcome(id, &call, BIT(DISCONNECTED), 0, deadline);
}

/* An event that reports a failure of the connection ends the wait too, with the event's error. */
int rdmabroker_wait_disconnected(struct rdmabroker_id *id, int timeout_ms)
{
	struct call call = { .name = "wait_disconnected" };
	int r = wire_check_process(&id->session->wire);

	if (r < 0)
		return r;
	if (idstate_is_datagram(id))
		return fail(EINVAL, "wait_disconnected: a datagram id has no connection");
	if (idstate_read(id, &id->disconnected))
		return 0;
	return await_outcome(id, &call, BIT(DISCONNECTED),
			     BIT(CONNECT_ERROR) | BIT(REJECTED) | BIT(UNREACHABLE),
			     deadline_after(timeout_ms));
}

int rdmabroker_get_request(struct rdmabroker_id *listen, int timeout_ms, struct rdmabroker_id **ret)
{
	struct rdmabroker_event *event;
	int r = take_event(listen->session, listen, BIT(CONNECT_REQUEST) | BIT(DEVICE_REMOVAL),
			   deadline_after(timeout_ms), NULL, &event);

	if (r == -EAGAIN)
		return fail(ETIMEDOUT,
			    "get_request: no connection request came before the timeout");
	if (r < 0)
		return r;
	if (event->type == RDMABROKER_EVENT_DEVICE_REMOVAL) {
		r = await_explain_removal(event, "get_request");
		rdmabroker_free_event(event);
		return r;
	}
	*ret = event->id;
	(*ret)->request = event;
	return 0;
}

const struct rdmabroker_event *rdmabroker_get_request_event(const struct rdmabroker_id *id)
{
	return id->request;
}

int rdmabroker_join_multicast_wait(struct rdmabroker_id *id, const struct sockaddr *addr,
				   unsigned join_flags, int timeout_ms,
				   struct rdmabroker_ud_param *ret)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct rdmabroker_event *event;
	/* Check RET first, so that no group is joined if RET is not valid. */
	int r = SIZED_CHECK(ret, "join_multicast", rdmabroker_ud_param, ah_attr);

	if (r == 0)
		r = multicast_join(id, addr, join_flags, NULL, /* wait= */ true, timeout_ms);
	if (r < 0)
		return r;
	r = take_event(id->session, id,
		       BIT(MULTICAST_JOIN) | BIT(MULTICAST_ERROR) | BIT(DEVICE_REMOVAL), deadline,
		       NULL, &event);
	if (r == -EAGAIN)
		return fail(ETIMEDOUT, "join_multicast: no outcome before the timeout");
	if (r < 0)
		return r;
	if (event->type == RDMABROKER_EVENT_MULTICAST_JOIN)
		sized_give(ret, event->ud);
	else
		r = fail(event->status < 0 ? -event->status : ENODEV, "join_multicast: %s",
			 event->text ?: "the join failed");
	rdmabroker_free_event(event);
	return r;
}
