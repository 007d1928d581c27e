/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric/internal.h"
#include "util/util.h"

#define BATCH 64 /* events a dispatch: others want their turns */

DEFINE_CLEANUP(struct fabric_channel *, fabric_channel_free)

static void copy(struct fabric_event *ret, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *conn = &event->param.conn;

	ret->type = event->event;
	ret->status = event->status;
	ret->conn = *conn;
	ret->conn.private_data = NULL;
	if (conn->private_data && conn->private_data_len > 0) {
		memcpy(ret->private_data, conn->private_data, conn->private_data_len);
		ret->conn.private_data = ret->private_data;
	} else {
		ret->conn.private_data_len = 0;
	}
}

/*
 * Acked before it is handed up, for rdma_destroy_id() waits until all events of an id are acked. False:
 * there is nothing to hand up.
 */
static bool take(struct fabric_channel *channel, struct rdma_cm_event *event,
		 struct fabric_event *ret)
{
	bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	struct fabric_id *id = is_request ? event->listen_id->context : event->id->context;
	struct rdma_cm_id *request = is_request ? event->id : NULL;

	copy(ret, event);
	ret->id_userdata = id->userdata;
	fabric_remember_context(channel->fabric, event->id->verbs);
	rdma_ack_cm_event(event);

	ret->request = NULL;
	if (request && fabric_id_adopt(&ret->request, channel, request) < 0) {
		rdma_destroy_id(request);
		return false;
	}
	if (ret->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		fabric_release_gone_contexts(channel->fabric);
	return true;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct fabric_channel *channel = userdata;
	bool freed = false;

	(void)source;
	(void)fd;
	(void)events;
	for (int i = 0; i < BATCH && !freed; i++) {
		struct rdma_cm_event *event;
		struct fabric_event copied;

		if (rdma_get_cm_event(channel->cm, &event) < 0)
			break;
		if (!take(channel, event, &copied))
			continue;
		channel->freed = &freed;
		channel->ops->event(channel->userdata, &copied);
		if (!freed)
			channel->freed = NULL;
	}
	return 0;
}

int fabric_channel_new(struct fabric_channel **ret, struct fabric *fabric,
		       const struct fabric_channel_ops *ops, void *userdata)
{
	_cleanup_(fabric_channel_freep) struct fabric_channel *channel = NULL;
	int flags, r;

	/* librdmacm takes a missing rdma_cm for one of a foreign version. */
	if (access("/sys/class/misc/rdma_cm", F_OK) < 0)
		return -ENODEV;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return -ENOMEM;
	channel->fabric = fabric;
	channel->ops = ops;
	channel->userdata = userdata;
	fabric->n_channels++;

	channel->cm = rdma_create_event_channel();
	if (!channel->cm)
		return errno ? -errno : -ENODEV;
	flags = fcntl(channel->cm->fd, F_GETFL);
	if (flags < 0 || fcntl(channel->cm->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(channel->cm->fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	r = sd_event_add_io(fabric->loop, &channel->io, channel->cm->fd, EPOLLIN, on_io, channel);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(channel);
	return 0;
}

struct fabric_channel *fabric_channel_free(struct fabric_channel *channel)
{
	if (!channel)
		return NULL;
	if (channel->freed)
		*channel->freed = true;
	sd_event_source_disable_unref(channel->io);
	if (channel->cm)
		rdma_destroy_event_channel(channel->cm);
	assert(channel->fabric->n_channels > 0);
	channel->fabric->n_channels--;
	free(channel);
	return NULL;
}
