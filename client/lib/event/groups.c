/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/lib/event/queue.h"
#include "client/lib/event/take.h"
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/multicast.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"
#include "proto/addr.h"
#include "proto/address.h"

/* Joining a multicast group with a wait, and leaving one, with the events about it that are still in the queue. */

static bool is_of_group(const struct raw_event *raw, const void *userdata)
{
	struct sockaddr_storage addr;

	if (!raw->frame || (raw->type != RDMABROKER_EVENT_MULTICAST_JOIN &&
			    raw->type != RDMABROKER_EVENT_MULTICAST_ERROR))
		return false;
	address_unpack(&addr, raw->frame->event->group);
	return addr_is_same_host((const struct sockaddr *)&addr, userdata);
}

int rdmabroker_leave_multicast(struct rdmabroker_id *id, const struct sockaddr *addr)
{
	ID_REQUEST(request, m, LeaveMulticast, LEAVE_MULTICAST, leave_multicast, id);
	struct raw_events events = TAILQ_HEAD_INITIALIZER(events);
	struct sockaddr_storage copy;
	Rdmabroker__Address address;
	int r = message_put_address(&address, addr);

	if (r < 0)
		return r;
	address_unpack(&copy, &address);
	multicast_forget(id, &copy);
	m.addr = &address;
	r = idcall_do(id, "leave_multicast", &request, ANSWER_AS_EVENT, NULL);
	/* The session's descriptor must not be readable because of an event that the program does not get any more. */
	wire_lock(&id->session->wire);
	pump_catch_up(&id->session->wire);
	queue_collect(id->session->queue, id, is_of_group, &copy, &events);
	wire_unlock(&id->session->wire);
	queue_free_events(&events);
	return r;
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
