/* SPDX-License-Identifier: BSD-2-Clause */

/* The backend librdmacm, or the drop-in if it is loaded. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "tests/bench/connect/worker.h"

static struct rdma_event_channel *channel;

static int result(int r)
{
	return r < 0 ? -errno : 0;
}

static int direct_create_id(void **ret)
{
	return result(rdma_create_id(channel, (struct rdma_cm_id **)ret, NULL, RDMA_PS_TCP));
}

static int direct_bind_addr(void *id, struct sockaddr *addr)
{
	return result(rdma_bind_addr(id, addr));
}

static int direct_open(struct sockaddr *addr, void **ret, struct ibv_context **ret_verbs)
{
	int r;

	channel = rdma_create_event_channel();
	if (!channel || fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) < 0)
		return -errno;
	r = direct_create_id(ret);
	if (r == 0)
		r = direct_bind_addr(*ret, addr);
	if (r < 0)
		return r;
	*ret_verbs = ((struct rdma_cm_id *)*ret)->verbs;
	return *ret_verbs ? 0 : -ENODEV;
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

static struct rdma_conn_param describe(uint32_t qp_num)
{
	return (struct rdma_conn_param){
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = qp_num,
	};
}

static int direct_connect(void *id, uint32_t qp_num)
{
	struct rdma_conn_param param = describe(qp_num);

	return result(rdma_connect(id, &param));
}

static int direct_establish(void *id)
{
	return result(rdma_establish(id));
}

static int direct_accept(void *id, uint32_t qp_num)
{
	struct rdma_conn_param param = describe(qp_num);

	return result(rdma_accept(id, &param));
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
