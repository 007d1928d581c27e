/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "client/lib/event/eventbuf.h"
#include "proto/text.h"

struct eventbuf *eventbuf_new(enum rdmabroker_event_type type)
{
	struct eventbuf *event = malloc(sizeof(*event));

	if (!event)
		return NULL;
	event->public = (struct rdmabroker_event){
		.size = sizeof(event->public),
		.type = type,
		.conn = &event->conn,
		.ud = &event->ud,
	};
	event->conn = (struct rdmabroker_conn_param){ .size = sizeof(event->conn) };
	event->ud = (struct rdmabroker_ud_param){ .size = sizeof(event->ud) };
	return event;
}

void eventbuf_set_text(struct eventbuf *event, const char *text)
{
	if (!text || !*text)
		return;
	text_copy(event->text, sizeof(event->text), text);
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
		CASE(USER);
		CASE(INTERNAL);
		CASE(DONE);
		CASE(LOST);
#undef CASE
	}
	return "unknown event";
}
