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

static void copy(struct fabric_event *ret, const struct rdma_cm_event *event, bool is_datagram)
{
	const struct rdma_conn_param *conn = &event->param.conn;
	const struct rdma_ud_param *ud = &event->param.ud;
	const void *data = is_datagram ? ud->private_data : conn->private_data;
	uint8_t len = is_datagram ? ud->private_data_len : conn->private_data_len;

	*ret = (struct fabric_event){ .type = event->event, .status = event->status };
	if (is_datagram) {
		ret->ud = *ud;
		ret->conn.qp_num = ud->qp_num;
	} else {
		ret->conn = *conn;
	}
	ret->ud.private_data = ret->conn.private_data = NULL;
	ret->ud.private_data_len = ret->conn.private_data_len = 0;
	if (event->event == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    event->event == RDMA_CM_EVENT_MULTICAST_ERROR) {
		/* In the place of private data stands what was given to librdmacm when joining. */
		ret->join = (struct fabric_join *)data;
		return;
	}
	if (data && len > 0) {
		memcpy(ret->private_data, data, len);
		ret->conn.private_data = ret->private_data;
		ret->conn.private_data_len = len;
	}
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
	    event->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		rdma_get_remote_ece(event->id, &ret->remote_ece);
}

static void note_stage(struct fabric_id *id, enum rdma_cm_event_type type)
{
	if (id->stage == STAGE_NONE)
		return;
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		id->stage = STAGE_ANSWERED;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		id->stage = STAGE_ESTABLISHED;
		break;
	/* What is left to be said then is the kernel's, when the id goes. */
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		id->stage = STAGE_NONE;
		break;
	default:
		break;
	}
}

/*
 * Acked before it is handed up, for rdma_destroy_id() waits until all events of an id are acked.
 * False: there is nothing to hand up, and the channel may be gone.
 */
static bool take(struct fabric_channel *channel, struct rdma_cm_event *event,
		 struct fabric_event *ret)
{
	bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	struct fabric_id *id = is_request ? event->listen_id->context : event->id->context;
	struct rdma_cm_id *request = is_request ? event->id : NULL;

	copy(ret, event,
	     event->id->qp_type == IBV_QPT_UD || event->event == RDMA_CM_EVENT_MULTICAST_JOIN ||
		     event->event == RDMA_CM_EVENT_MULTICAST_ERROR);
	ret->id_userdata = id->userdata;
	rdma_ack_cm_event(event);

	if (request && fabric_id_adopt(&ret->request, channel, request) < 0) {
		rdma_destroy_id(request);
		return false;
	}
	fabric_id_note_device(request ? ret->request : id);
	note_stage(id, ret->type);
	/* The node may have gone before; or it goes next, then udev tells. */
	if (ret->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		fabric_release_gone_contexts(channel->fabric);
	if (id->farewell) {
		fabric_farewell_on_event(id, ret->type);
		return false;
	}
	return true;
}

static int next_event(struct fabric_channel *channel, struct rdma_cm_event **ret)
{
	errno = 0;
	if (rdma_get_cm_event(channel->cm, ret) < 0)
		return -(errno ?: EIO);
	/* What fails is librdmacm's own look-up on the way: it says -1, the kernel an errno. */
	if ((*ret)->status == -1 && errno != 0)
		(*ret)->status = -errno;
	return 0;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct fabric_channel *channel = userdata;
	bool freed = false, in_a_row;
	uint64_t turn = 0;
	int n;

	(void)fd;
	(void)events;
	/* One is all there is, mostly: only where they come one after the other is it asked for more. */
	sd_event_get_iteration(channel->fabric->loop, &turn);
	in_a_row = turn == channel->turn + 1;
	channel->turn = turn;
	n = in_a_row ? BATCH : 1;
	for (int i = 0; i < n && !freed; i++) {
		struct rdma_cm_event *event;
		struct fabric_event copied;
		int r;

		r = next_event(channel, &event);
		if (r == -EAGAIN || r == -EINTR || r == -ENOMEM)
			break;
		if (r < 0) {
			/* Will not get better, and the file would be ready for ever. */
			sd_event_source_set_enabled(source, SD_EVENT_OFF);
			break;
		}
		channel->freed = &freed;
		if (take(channel, event, &copied))
			channel->ops->event(channel->userdata, &copied);
		if (!freed)
			channel->freed = NULL;
	}
	return 0;
}

/*
 * What librdmacm finds in its first call it believes for ever: without rdma_cm it would take the
 * newest version for the kernel's, and AF_IB for unknown to it. Where it must not open rdma_cm it
 * waits for udev, up to 5 s. So it is not called before it can succeed.
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
	/* EPERM is its word for a version that it does not know. */
	return errno == EPERM ? -EPROTONOSUPPORT : -(errno ?: ENODEV);
}

int fabric_channel_new(struct fabric_channel **ret, struct fabric *fabric,
		       const struct fabric_channel_ops *ops, void *userdata)
{
	_cleanup_(fabric_channel_freep) struct fabric_channel *channel = NULL;
	int flags, r;

	r = check_rdma_cm();
	if (r < 0)
		return r;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return -ENOMEM;
	channel->fabric = fabric;
	channel->ops = ops;
	channel->userdata = userdata;
	fabric->n_channels++;

	r = open_rdma_cm(&channel->cm);
	if (r < 0)
		return r;
	flags = fcntl(channel->cm->fd, F_GETFL);
	if (flags < 0 || fcntl(channel->cm->fd, F_SETFL, flags | O_NONBLOCK) < 0)
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
	if (channel->n_leaving > 0) {
		channel->freed = NULL;
		channel->is_left = true;
		return NULL;
	}
	sd_event_source_disable_unref(channel->io);
	if (channel->cm)
		rdma_destroy_event_channel(channel->cm);
	assert(channel->fabric->n_channels > 0);
	channel->fabric->n_channels--;
	free(channel);
	return NULL;
}
