/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/lib/event/queue.h"
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/multicast.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/sessionparts.h"
#include "proto/addr.h"
#include "proto/address.h"

/* Leaving a multicast group, with the events about it that are still in the queue. */

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
	REQUEST(request, m, LeaveMulticast, LEAVE_MULTICAST, leave_multicast);
	struct sockaddr_storage copy;
	Rdmabroker__Address address;
	int r = message_put_address(&address, addr);

	if (r < 0)
		return r;
	address_unpack(&copy, &address);
	multicast_forget(id, &copy);
	m.id = id->handle;
	m.addr = &address;
	r = idcall_do(id, "leave_multicast", &request, ANSWER_AS_EVENT, NULL);
	/* The session's descriptor must not be readable because of an event that the program does not get any more. */
	wire_lock(&id->session->wire);
	pump_catch_up(&id->session->wire);
	queue_drop(id->session->queue, id, is_of_group, &copy);
	wire_unlock(&id->session->wire);
	return r;
}
