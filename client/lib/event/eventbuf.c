/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "client/lib/event/eventbuf.h"

struct eventbuf *eventbuf_new(enum rdmabroker_event_type type)
{
	struct eventbuf *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	event->conn.size = sizeof(event->conn);
	event->ud.size = sizeof(event->ud);
	event->public.size = sizeof(event->public);
	event->public.type = type;
	event->public.conn = &event->conn;
	event->public.ud = &event->ud;
	return event;
}

void eventbuf_set_text(struct eventbuf *event, const char *text)
{
	if (!text || !*text)
		return;
	snprintf(event->text, sizeof(event->text), "%s", text);
	event->public.text = event->text;
}

struct rdmabroker_event *rdmabroker_free_event(struct rdmabroker_event *event)
{
	/* The public struct is the first member of struct eventbuf. */
	free(event);
	return NULL;
}

const char *rdmabroker_event_str(enum rdmabroker_event_type type)
{
	switch (type) {
#define CASE(name)                    \
	case RDMABROKER_EVENT_##name: \
		return "RDMABROKER_EVENT_" #name
		CASE(NONE);
		CASE(ADDR_RESOLVED);
		CASE(ADDR_ERROR);
		CASE(ROUTE_RESOLVED);
		CASE(ROUTE_ERROR);
		CASE(CONNECT_REQUEST);
		CASE(CONNECT_RESPONSE);
		CASE(CONNECT_ERROR);
		CASE(UNREACHABLE);
		CASE(REJECTED);
		CASE(ESTABLISHED);
		CASE(DISCONNECTED);
		CASE(DEVICE_REMOVAL);
		CASE(MULTICAST_JOIN);
		CASE(MULTICAST_ERROR);
		CASE(ADDR_CHANGE);
		CASE(TIMEWAIT_EXIT);
		CASE(DONE);
		CASE(LOST);
#undef CASE
	}
	return "unknown event";
}
