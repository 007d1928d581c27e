/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dropin.h"

/* What a program can do after it has changed its user. The suite compares what is printed. */

static void tell(const char *which, const char *what, int r)
{
	printf("%s: %s: %s\n", which, what, r < 0 ? strerrorname_np(errno) : "yes");
}

static struct sockaddr *at(uint16_t port)
{
	static struct sockaddr_in addr;

	addr = here;
	addr.sin_port = htons(port);
	return (struct sockaddr *)&addr;
}

static struct rdma_event_channel *new_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (channel)
		CHECK(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
	return channel;
}

/* WHICH: "old" or "new". */
static void use(const char *which, struct rdma_event_channel *channel, uint16_t port)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	int r = rdma_create_id(channel, &id, NULL, RDMA_PS_TCP);

	tell(which, "create an id", r);
	if (r == 0) {
		tell(which, "bind", rdma_bind_addr(id, at(port)));
		tell(which, "listen", rdma_listen(id, 1));
		tell(which, "destroy the id", rdma_destroy_id(id));
	}
	tell(which, "take an event", rdma_get_cm_event(channel, &event));
}

/* BOUND: an id is bound to a device before the user changes. */
static void change_user(bool bound)
{
	struct rdma_event_channel *old = new_channel(), *new;
	struct rdma_cm_id *id;

	CHECK(old && rdma_create_id(old, &id, NULL, RDMA_PS_TCP) == 0);
	if (bound)
		CHECK(rdma_bind_addr(id, at(7491)) == 0);
	CHECK(setgroups(0, NULL) == 0 && setgid(1000) == 0 && setuid(1000) == 0);
	if (!bound)
		tell("first", "bind", rdma_bind_addr(id, at(7491)));
	tell("first", "listen", rdma_listen(id, 1));
	tell("first", "destroy the id", rdma_destroy_id(id));
	use("old", old, 7492);
	new = new_channel();
	tell("new", "create a channel", new ? 0 : -1);
	if (new)
		use("new", new, 7493);
}

void case_setuid(void)
{
	change_user(/* bound= */ true);
}

void case_setuid_early(void)
{
	change_user(/* bound= */ false);
}
