/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "dropin.h"

static void say(const char *text)
{
	puts(text);
	fflush(stdout);
}

static struct rdma_cm_id *listen_once(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&here) == 0);
	CHECK(id->verbs);
	CHECK(rdma_listen(id, 8) == 0);
	return id;
}

/* Until the suite sends a line. The kernel removes the device only when the drop-in has closed it, at some call. */
static void await_line(void)
{
	struct pollfd p = { STDIN_FILENO, POLLIN, 0 };
	char line[8];

	while (poll(&p, 1, 50) == 0)
		rdma_destroy_event_channel(rdma_create_event_channel());
	CHECK(fgets(line, sizeof(line), stdin));
}

/*
 * The suite removes the device after "ready", adds it again after "gone", and then sends a line. A listener on the old
 * channel and one on a new channel must succeed at the first try, each time.
 */
void case_back(void)
{
	struct rdma_event_channel *old = rdma_create_event_channel(), *new;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(old);
	for (int i = 0; i < 3; i++) {
		id = listen_once(old);
		say("ready");
		CHECK(rdma_get_cm_event(old, &event) == 0);
		CHECK(event->event == RDMA_CM_EVENT_DEVICE_REMOVAL && event->id == id);
		rdma_ack_cm_event(event);
		CHECK(rdma_destroy_id(id) == 0);
		say("gone");
		await_line();
		new = rdma_create_event_channel();
		CHECK(new);
		id = listen_once(new);
		CHECK(rdma_destroy_id(id) == 0);
		rdma_destroy_event_channel(new);
		say("listens");
	}
	rdma_destroy_event_channel(old);
}
