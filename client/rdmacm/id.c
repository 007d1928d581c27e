/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

/* Life */

size_t addr_size(const struct sockaddr *addr)
{
	if (!addr)
		return 0;
	switch (addr->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

static struct id *id_alloc(void *context, enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
	struct id *id = calloc(1, sizeof(*id));

	if (!id) {
		errno = ENOMEM;
		return NULL;
	}
	id->public.context = context;
	id->public.ps = ps;
	id->public.qp_type = qp_type;
	pthread_mutex_init(&id->lock, NULL);
	pthread_cond_init(&id->acked, NULL);
	LIST_INIT(&id->joins);
	return id;
}

static void id_free(struct id *id)
{
	joins_free(id);
	if (id->device)
		device_put(id->device);
	free(id->public.route.path_rec);
	free(id->connect_data);
	free(id->request_qp);
	pthread_cond_destroy(&id->acked);
	pthread_mutex_destroy(&id->lock);
	free(id);
}

static void id_enter(struct id *id, struct channel *channel)
{
	id->public.channel = &channel->public;
	LIST_INSERT_HEAD(&channel->ids, id, link);
}

int id_new(struct channel *channel, struct id **ret, void *context, enum rdma_port_space ps,
	   enum ibv_qp_type qp_type)
{
	struct id *id;
	int r;

	devices_sweep();
	id = id_alloc(context, ps, qp_type);
	if (!id)
		return -1;
	id->sync = !channel;
	if (!channel)
		channel = channel_new();
	if (!channel) {
		id_free(id);
		return -1;
	}
	r = BROKER(rdmabroker_create_id(channel->session, &id->handle, id,
					(enum rdmabroker_port_space)ps));
	if (r < 0) {
		if (id->sync)
			channel_free(channel);
		id_free(id);
		return report_result("rdma_create_id", r);
	}
	pthread_mutex_lock(&channel->lock);
	id_enter(id, channel);
	pthread_mutex_unlock(&channel->lock);
	*ret = id;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	enum ibv_qp_type qp_type = ps == RDMA_PS_IPOIB || ps == RDMA_PS_UDP ? IBV_QPT_UD :
									      IBV_QPT_RC;
	struct id *new;

	if (broker_start() < 0)
		return -1;
	FORWARD(rdma_create_id, channel, id, context, ps);
	if (id_new(channel ? to_channel(channel) : NULL, &new, context, ps, qp_type) < 0)
		return -1;
	*id = &new->public;
	return 0;
}

struct id *id_new_request(struct id *listener, struct rdmabroker_id *handle)
{
	struct id *id =
		id_alloc(listener->public.context, listener->public.ps, listener->public.qp_type);

	if (!id)
		return NULL;
	id->handle = handle;
	rdmabroker_id_set_context(handle, id);
	id_enter(id, to_channel(listener->public.channel));
	return id;
}

void id_discard(struct id *id)
{
	BROKER(rdmabroker_destroy_id_wait(id->handle, RDMABROKER_TIMEOUT_DEFAULT));
	LIST_REMOVE(id, link);
	id_free(id);
}

static void ack_own_event(struct id *id)
{
	if (id->public.event)
		rdma_ack_cm_event(id->public.event);
	id->public.event = NULL;
}

/* Waits until the program has acked N events of the id. */
static void await_acks(struct id *id, unsigned n)
{
	pthread_mutex_lock(&id->lock);
	while (id->n_acked < n)
		pthread_cond_wait(&id->acked, &id->lock);
	pthread_mutex_unlock(&id->lock);
}

int rdma_destroy_id(struct rdma_cm_id *public)
{
	struct id *id = to_id(public);
	struct channel *channel = NULL;

	FORWARD(rdma_destroy_id, public);
	if (id->handle) {
		channel = to_channel(public->channel);
		pthread_mutex_lock(&channel->lock);
		if (id->has_port)
			BROKER(rdmabroker_destroy_id_wait(id->handle, RDMABROKER_TIMEOUT_DEFAULT));
		else
			BROKER(rdmabroker_destroy_id(id->handle));
		id->handle = NULL;
		LIST_REMOVE(id, link);
		pthread_mutex_unlock(&channel->lock);
	}
	/* From now on the program gets no more events of the id. */
	ack_own_event(id);
	await_acks(id, id->n_reported);
	if (id->sync && channel)
		channel_free(channel);
	id_free(id);
	return 0;
}

int id_complete(struct id *id)
{
	struct rdma_cm_event *event;

	if (!id->sync)
		return 0;
	ack_own_event(id);
	if (rdma_get_cm_event(id->public.channel, &event) < 0)
		return -1;
	id->public.event = event;
	if (event->status == 0)
		return 0;
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return fail(ECONNREFUSED);
	return fail(event->status < 0 ? -event->status : event->status);
}

/* Addresses */

static void learn_addrs(struct id *id)
{
	struct rdma_addr *addr = &id->public.route.addr;
	const struct sockaddr *local = rdmabroker_id_get_local_addr(id->handle);
	const struct sockaddr *peer = rdmabroker_id_get_peer_addr(id->handle);

	memcpy(&addr->src_storage, local, addr_size(local));
	memcpy(&addr->dst_storage, peer, addr_size(peer));
}

/* The INIT attributes have the id's port number and P_Key index. */
static int learn_port(struct id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	__be16 pkey;
	int mask, r;

	r = BROKER(rdmabroker_init_qp_attr(id->handle, &attr, &mask));
	if (r < 0)
		return r;
	id->public.port_num = attr.port_num;
	if (ibv_query_pkey(id->device->verbs, attr.port_num, attr.pkey_index, &pkey) == 0)
		id->public.route.addr.addr.ibaddr.pkey = pkey;
	return 0;
}

int id_learn(struct id *id)
{
	const char *name = rdmabroker_id_get_device(id->handle);
	int r;

	learn_addrs(id);
	if (name && !id->device) {
		r = device_get(name, &id->device);
		if (r < 0)
			return r;
		id->public.verbs = id->device->verbs;
		id->public.pd = id->device->pd;
		r = learn_port(id);
		if (r < 0)
			return r;
	}
	route_learn_gids(id);
	return 0;
}

/* Whether the program chose the port. Only then may it wait to use the same port again. */
static bool has_port(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)addr)->sin6_port != 0 :
					     ((const struct sockaddr_in *)addr)->sin_port != 0;
}

int rdma_bind_addr(struct rdma_cm_id *public, struct sockaddr *addr)
{
	struct id *id = to_id(public);
	int r;

	FORWARD(rdma_bind_addr, public, addr);
	if (!id->handle)
		return fail(EBADF);
	if (addr_size(addr) == 0)
		return fail(EINVAL);
	r = BROKER(rdmabroker_bind_addr(id->handle, addr));
	id->has_port |= r == 0 && has_port(addr);
	return report_result("rdma_bind_addr", r < 0 ? r : id_learn(id));
}

int rdma_listen(struct rdma_cm_id *public, int backlog)
{
	struct id *id = to_id(public);
	int r;

	FORWARD(rdma_listen, public, backlog);
	if (!id->handle)
		return fail(EBADF);
	r = BROKER(rdmabroker_listen(id->handle, backlog));
	id->has_port |= r == 0;
	return report_result("rdma_listen", r < 0 ? r : id_learn(id));
}

int rdma_resolve_addr(struct rdma_cm_id *public, struct sockaddr *src_addr,
		      struct sockaddr *dst_addr, int timeout_ms)
{
	struct id *id = to_id(public);
	int r;

	FORWARD(rdma_resolve_addr, public, src_addr, dst_addr, timeout_ms);
	if (!id->handle)
		return fail(EBADF);
	if (addr_size(dst_addr) == 0 || (src_addr && addr_size(src_addr) == 0))
		return fail(EINVAL);
	r = BROKER(rdmabroker_resolve_addr(id->handle, src_addr, dst_addr,
					   timeout_ms > 0 ? timeout_ms : 1));
	if (r < 0)
		return report_result("rdma_resolve_addr", r);
	id->has_port |= src_addr && has_port(src_addr);
	memcpy(&public->route.addr.dst_storage, dst_addr, addr_size(dst_addr));
	return id_complete(id);
}

int rdma_resolve_route(struct rdma_cm_id *public, int timeout_ms)
{
	struct id *id = to_id(public);
	int r;

	FORWARD(rdma_resolve_route, public, timeout_ms);
	if (!id->handle)
		return fail(EBADF);
	r = BROKER(rdmabroker_resolve_route(id->handle, timeout_ms > 0 ? timeout_ms : 1));
	return r < 0 ? report_result("rdma_resolve_route", r) : id_complete(id);
}

static __be16 get_port(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)addr)->sin_port;
	case AF_INET6:
		return ((const struct sockaddr_in6 *)addr)->sin6_port;
	default:
		return 0;
	}
}

/* The address structs are those of librdmacm. AF_IB addresses are not supported, so they have no port here. */
__be16 rdma_get_src_port(struct rdma_cm_id *public)
{
	FORWARD(rdma_get_src_port, public);
	return get_port(&public->route.addr.src_addr);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *public)
{
	FORWARD(rdma_get_dst_port, public);
	return get_port(&public->route.addr.dst_addr);
}

/* Options */

static int get_number(const void *value, size_t len, size_t expected, int *ret)
{
	if (!value || len != expected)
		return -EINVAL;
	if (len == 1)
		*ret = *(const uint8_t *)value;
	else
		memcpy(ret, value, sizeof(*ret));
	return 0;
}

static int set_option(struct id *id, int option, const void *value, size_t len)
{
	bool is_byte = option == RDMA_OPTION_ID_TOS || option == RDMA_OPTION_ID_ACK_TIMEOUT;
	int number = 0, r;

	if (option < RDMA_OPTION_ID_TOS || option > RDMA_OPTION_ID_ACK_TIMEOUT)
		return -ENOSYS;
	r = get_number(value, len, is_byte ? 1 : sizeof(int), &number);
	return r < 0 ? r :
		       BROKER(rdmabroker_set_option(id->handle, (enum rdmabroker_option)option,
						    number));
}

/* Setting paths (RDMA_OPTION_IB) is not supported, because the broker resolves routes. */
int rdma_set_option(struct rdma_cm_id *public, int level, int optname, void *optval, size_t optlen)
{
	struct id *id = to_id(public);

	FORWARD(rdma_set_option, public, level, optname, optval, optlen);
	if (!id->handle)
		return fail(EBADF);
	return report_result("rdma_set_option", level == RDMA_OPTION_ID ?
							set_option(id, optname, optval, optlen) :
							-ENOSYS);
}

/* Migration */

static int move(struct id *id, struct channel *from, struct channel *to, unsigned *ret_n_reported)
{
	int r;

	pthread_mutex_lock(&from->lock);
	r = BROKER(rdmabroker_migrate_id(id->handle, to->session));
	if (r == 0)
		LIST_REMOVE(id, link);
	*ret_n_reported = id->n_reported;
	pthread_mutex_unlock(&from->lock);
	if (r < 0)
		return r;
	pthread_mutex_lock(&to->lock);
	id_enter(id, to);
	pthread_mutex_unlock(&to->lock);
	return 0;
}

int id_migrate(struct id *id, struct channel *to)
{
	struct channel *from = to_channel(id->public.channel);
	bool sync = !to;
	unsigned n;
	int r;

	if (!to)
		to = channel_new();
	if (!to)
		return -1;
	r = move(id, from, to, &n);
	if (r < 0) {
		if (sync)
			channel_free(to);
		return report_result("rdma_migrate_id", r);
	}
	if (id->sync) {
		ack_own_event(id);
		channel_free(from);
	}
	id->sync = sync;
	/* So that no thread still uses an event of the old channel when this returns. */
	await_acks(id, n);
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *public, struct rdma_event_channel *channel)
{
	struct id *id = to_id(public);

	FORWARD(rdma_migrate_id, public, channel);
	if (!id->handle)
		return fail(EBADF);
	if (id->sync && !channel)
		return fail(EINVAL);
	return id_migrate(id, channel ? to_channel(channel) : NULL);
}
