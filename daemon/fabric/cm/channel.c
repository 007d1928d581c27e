/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric/cm/id.h"
#include "fabric/device/opener.h"
#include "proto/timer.h"
#include "util/hot.h"
#include "util/util.h"

/*
 * The event channel of librdmacm: opened when the first device can be used, read in the loop, some events in each
 * turn. Its descriptor is what the next process takes over (fabric_get_files()).
 */

#define BATCH 64 /* events in one dispatch at most, so that other sources get their turn */

#define RETRY_USEC (100 * 1000ULL)

static int next_event(struct fabric *fabric, struct rdma_cm_event **ret)
{
	errno = 0;
	if (rdma_get_cm_event(fabric->cm, ret) < 0)
		return -(errno ?: EIO);
	/*
	 * Status -1 with errno set: a query that librdmacm made for this event has failed. Any other status
	 * is the kernel's.
	 */
	if ((*ret)->status == -1 && errno != 0)
		(*ret)->status = -errno;
	return 0;
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct fabric *fabric = userdata;

	fabric_update_io(fabric);
	return 0;
}

static bool on_io(struct hot_io *io, uint32_t events);

static bool may_read(const struct fabric *fabric)
{
	return !opener_is_new(fabric->opener) && fabric->n_dying_unwanted < DYING_UNWANTED_MAX &&
	       sd_event_source_get_enabled(fabric->io_retry, NULL) == 0;
}

/* If memory runs out, it is tried again later. */
void fabric_update_io(struct fabric *fabric)
{
	bool reads = fabric->io.hot != NULL;

	if (!fabric->hot || reads == may_read(fabric))
		return;
	if (reads)
		hot_remove(&fabric->io);
	else if (hot_add(fabric->hot, &fabric->io, fabric->cm->fd, EPOLLIN, on_io) < 0)
		timer_start(fabric->io_retry, RETRY_USEC);
}

static bool on_io(struct hot_io *io, uint32_t events)
{
	struct fabric *fabric = container_of(io, struct fabric, io);
	uint64_t turn = hot_get_turn(fabric->hot);
	bool in_a_row;
	int n;

	/*
	 * Usually there is one event, and a second read would return EAGAIN. So several events are read only
	 * if the last turns of the loop had events too.
	 */
	in_a_row = turn - fabric->turn <= 2;
	fabric->turn = turn;
	n = in_a_row ? BATCH : 1;
	for (int i = 0; i < n && may_read(fabric); i++) {
		struct rdma_cm_event *event;
		int r;

		*fabric->reading = 1;
		r = next_event(fabric, &event);
		if (r == 0)
			fabric->take_event(fabric, event);
		*fabric->reading = 0;
		if (r == -EAGAIN || r == -EINTR)
			break;
		if (r < 0) {
			/*
			 * The error can be permanent. Then the descriptor stays readable for ever, so reading
			 * pauses.
			 */
			log_limited(&fabric->log_limit, LOG_ERR,
				    "Cannot read an event of the connection manager: %s.",
				    strerror(-r));
			timer_start(fabric->io_retry, RETRY_USEC);
			fabric_update_io(fabric);
			break;
		}
	}
	return true;
}

/*
 * Returns 0 if rdma_cm can be opened, or a negative errno. librdmacm must not be called before. If rdma_cm
 * does not exist at the first call of librdmacm, librdmacm assumes the newest ABI version for good. If
 * librdmacm has no permission to open rdma_cm, it waits for udev, up to 5 s.
 */
static int check_rdma_cm(void)
{
	_cleanup_(sd_device_unrefp) sd_device *d = NULL;
	const char *node;

	if (sd_device_new_from_subsystem_sysname(&d, "misc", "rdma_cm") < 0 ||
	    sd_device_get_devname(d, &node) < 0)
		return -ENODEV;
	if (access(node, R_OK | W_OK) < 0)
		return errno == ENOENT ? -ENODEV : -errno;
	return 0;
}

static int open_rdma_cm(struct rdma_event_channel **ret)
{
	errno = 0;
	*ret = rdma_create_event_channel();
	if (*ret)
		return 0;
	/* librdmacm reports an ABI version that it does not support as EPERM. */
	return errno == EPERM ? -EPROTONOSUPPORT : -(errno ?: ENODEV);
}

void fabric_look_for_devices(struct fabric *fabric)
{
	opener_look(fabric->opener);
	fabric_update_io(fabric);
}

static int watch_channel(struct fabric *fabric)
{
	int flags = fcntl(fabric->cm->fd, F_GETFL), r;

	if (flags < 0 || fcntl(fabric->cm->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	r = timer_new(&fabric->io_retry, fabric->loop, 0, on_retry, fabric);
	if (r < 0)
		return r;
	fabric->hot = hot_ref(fabric->loop);
	if (!fabric->hot)
		return -ENOMEM;
	fabric_update_io(fabric);
	return 0;
}

int fabric_open_channel(struct fabric *fabric)
{
	int r;

	if (fabric->cm)
		return 0;
	/* Without a device that it can use, librdmacm opens no channel. */
	if (opener_is_new(fabric->opener))
		return -EINPROGRESS;
	r = check_rdma_cm();
	if (r == 0)
		r = open_rdma_cm(&fabric->cm);
	if (r < 0)
		return r;
	r = watch_channel(fabric);
	if (r < 0) {
		fabric_close_channel(fabric);
		return r;
	}
	if (fabric->ops->opened)
		fabric->ops->opened(fabric->userdata, fabric->cm->fd);
	fabric_update_io(fabric);
	return 0;
}

void fabric_close_channel(struct fabric *fabric)
{
	hot_remove(&fabric->io);
	fabric->hot = hot_unref(fabric->hot);
	fabric->io_retry = sd_event_source_disable_unref(fabric->io_retry);
	if (fabric->cm)
		rdma_destroy_event_channel(fabric->cm);
	fabric->cm = NULL;
}
