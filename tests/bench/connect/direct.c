/* SPDX-License-Identifier: BSD-2-Clause */

/* The backend librdmacm, or the drop-in if it is loaded. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "tests/bench/connect/bench.h"

static struct rdma_event_channel *channel;

static int result(int r)
{
	return r < 0 ? -errno : 0;
}

static int direct_open(const struct sockaddr *addr, void **ret, struct ibv_context **ret_verbs)
{
	struct rdma_cm_id *id;

	channel = rdma_create_event_channel();
	if (!channel || fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) < 0)
		return -errno;
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) < 0 ||
	    rdma_bind_addr(id, (struct sockaddr *)(uintptr_t)addr) < 0)
		return -errno;
	if (!id->verbs)
		return -ENODEV;
	*ret = id;
	*ret_verbs = id->verbs;
	return 0;
}

static int direct_listen(void *id)
{
	return result(rdma_listen(id, 0));
}

static int direct_get_fd(void)
{
	return channel->fd;
}

static int direct_get_event(struct event *ret, bool wait)
{
	struct rdma_cm_event *event;
	int r;

	/* Polls like a program with an event loop, and like librdmabroker. */
	while ((r = result(rdma_get_cm_event(channel, &event))) == -EAGAIN && wait) {
		struct pollfd p = { .fd = channel->fd, .events = POLLIN };

		r = poll(&p, 1, DEADLINE_MS);
		if (r <= 0)
			return r < 0 ? -errno : -ETIMEDOUT;
	}
	if (r < 0)
		return r;
	*ret = (struct event){ .type = event->event, .status = event->status, .id = event->id };
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
	    event->event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		const struct rdma_conn_param *conn = &event->param.conn;

		ret->data_len = conn->private_data_len < sizeof(ret->data) ?
					conn->private_data_len :
					(uint8_t)sizeof(ret->data);
		if (ret->data_len > 0)
			memcpy(ret->data, conn->private_data, ret->data_len);
	}
	return result(rdma_ack_cm_event(event));
}

static const char *direct_get_failure(void)
{
	return NULL;
}

static void *direct_get_context(void *id)
{
	return ((struct rdma_cm_id *)id)->context;
}

static void direct_set_context(void *id, void *context)
{
	((struct rdma_cm_id *)id)->context = context;
}

static int direct_create_id(void **ret)
{
	struct rdma_cm_id *id;
	int r = result(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));

	if (r == 0)
		*ret = id;
	return r;
}

static int direct_bind_addr(void *id, struct sockaddr *addr)
{
	return result(rdma_bind_addr(id, addr));
}

static int direct_resolve_addr(void *id, struct sockaddr *addr)
{
	return result(rdma_resolve_addr(id, NULL, addr, RESOLVE_MS));
}

static int direct_resolve_route(void *id)
{
	return result(rdma_resolve_route(id, RESOLVE_MS));
}

static int direct_init_qp_attr(void *id, struct ibv_qp_attr *attr, int *mask)
{
	return result(rdma_init_qp_attr(id, attr, mask));
}

static int direct_connect(void *id, const struct rdma_conn_param *param)
{
	struct rdma_conn_param p = *param;

	return result(rdma_connect(id, &p));
}

static int direct_establish(void *id)
{
	return result(rdma_establish(id));
}

static int direct_accept(void *id, const struct rdma_conn_param *param)
{
	struct rdma_conn_param p = *param;

	return result(rdma_accept(id, &p));
}

static int direct_disconnect(void *id)
{
	return result(rdma_disconnect(id));
}

static int direct_destroy_id(void *id)
{
	return result(rdma_destroy_id(id));
}

static int direct_create_qp(void *id, struct ibv_qp_init_attr *attr)
{
	return result(rdma_create_qp(id, worker.pd, attr));
}

static void direct_destroy_qp(void *id)
{
	rdma_destroy_qp(id);
}

const struct backend direct_backend = {
	.open = direct_open,
	.listen = direct_listen,
	.get_fd = direct_get_fd,
	.get_event = direct_get_event,
	.get_failure = direct_get_failure,
	.get_context = direct_get_context,
	.set_context = direct_set_context,
	.create_id = direct_create_id,
	.bind_addr = direct_bind_addr,
	.resolve_addr = direct_resolve_addr,
	.resolve_route = direct_resolve_route,
	.init_qp_attr = direct_init_qp_attr,
	.connect = direct_connect,
	.establish = direct_establish,
	.accept = direct_accept,
	.disconnect = direct_disconnect,
	.destroy_id = direct_destroy_id,
	.create_qp = direct_create_qp,
	.destroy_qp = direct_destroy_qp,
};
