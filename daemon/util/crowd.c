/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>

#include "util/crowd.h"
#include "util/util.h"

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct epoll_event ready[CROWD_MAX];
	const struct crowd *crowd = userdata;
	int n = epoll_wait(fd, ready, (int)crowd->max, 0);

	for (int i = 0; i < n; i++)
		if (!crowd->on_ready(ready[i].data.ptr, ready[i].events))
			break;
	return 0;
}

int crowd_init(struct crowd *crowd, sd_event *loop, unsigned max,
	       bool (*on_ready)(void *object, uint32_t events))
{
	int r;

	assert(max > 0 && max <= CROWD_MAX);
	crowd->max = max;
	crowd->on_ready = on_ready;
	crowd->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (crowd->epoll < 0)
		return -errno;
	r = sd_event_add_io(loop, &crowd->io, crowd->epoll, EPOLLIN, on_io, crowd);
	return r < 0 ? r : 0;
}

void crowd_done(struct crowd *crowd)
{
	sd_event_source_disable_unref(crowd->io);
	/* All zero: crowd_init() was not called. */
	if (crowd->max > 0)
		closep(&crowd->epoll);
}

static int control(struct crowd *crowd, int op, int fd, uint32_t events, void *object)
{
	struct epoll_event event = { .events = events, .data.ptr = object };

	return epoll_ctl(crowd->epoll, op, fd, &event) < 0 ? -errno : 0;
}

int crowd_add(struct crowd *crowd, int fd, uint32_t events, void *object)
{
	return control(crowd, EPOLL_CTL_ADD, fd, events, object);
}

void crowd_remove(struct crowd *crowd, int fd)
{
	control(crowd, EPOLL_CTL_DEL, fd, 0, NULL);
}
