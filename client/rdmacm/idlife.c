/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

/* Creates, migrates and destroys ids. The calls on ids are in idcalls.c. */

static struct id *alloc_id(void *context, enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
	struct id *id = calloc(1, sizeof(*id));

	if (!id) {
		errno = ENOMEM;
		return NULL;
	}
	id->public.context = context;
	id->public.ps = ps;
	id->public.qp_type = qp_type;
	id->responder_resources = RDMA_MAX_RESP_RES;
	id->initiator_depth = RDMA_MAX_INIT_DEPTH;
	memset(id->private.sync, 1, sizeof(id->private.sync));
	pthread_mutex_init(&id->lock, NULL);
	pthread_cond_init(&id->acked, NULL);
	LIST_INIT(&id->joins);
	return id;
}

static void free_id(struct id *id)
{
	joins_free(id);
	if (id->device)
		device_put(id->device);
	free(id->public.route.path_rec);
	free(id->connect_data);
	free(id->request_qp);
	rdma_freeaddrinfo(id->found);
	pthread_cond_destroy(&id->acked);
	pthread_mutex_destroy(&id->lock);
	free(id);
}

static void add_to_channel(struct id *id, struct channel *channel)
{
	id->public.channel = &channel->public;
	LIST_INSERT_HEAD(&channel->ids, id, link);
}

/* In the other cases the kernel does not take the type from its caller, either. */
static bool has_type(enum rdma_port_space ps, enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV ||
	       (ps == RDMA_PS_IB && (type == IBV_QPT_UC || type == IBV_QPT_UD));
}

int id_new(struct channel *channel, struct id **ret, void *context, enum rdma_port_space ps,
	   enum ibv_qp_type qp_type)
{
	bool sync = !channel;
	struct id *id;
	int r;

	devices_sweep();
	id = alloc_id(context, ps, qp_type);
	if (!id)
		return -1;
	if (sync)
		channel = channel_new(sync);
	if (!channel) {
		free_id(id);
		return -1;
	}
	r = BROKER(rdmabroker_create_id(channel->session.broker, (enum rdmabroker_port_space)ps, id,
					&id->handle));
	if (r == 0 && has_type(ps, qp_type)) {
		r = BROKER(
			rdmabroker_set_option(id->handle, RDMABROKER_OPTION_QP_TYPE, (int)qp_type));
		if (r < 0)
			BROKER(rdmabroker_destroy_id(id->handle));
	}
	if (r < 0) {
		if (sync)
			channel_free(channel);
		free_id(id);
		return report_result("rdma_create_id", r);
	}
	id->sync = sync;
	pthread_mutex_lock(&channel->lock);
	add_to_channel(id, channel);
	pthread_mutex_unlock(&channel->lock);
	*ret = id;
	return 0;
}

struct id *id_new_request(struct id *listener, struct rdmabroker_id *handle)
{
	struct id *id =
		alloc_id(listener->public.context, listener->public.ps, listener->public.qp_type);

	if (!id)
		return NULL;
	id->handle = handle;
	rdmabroker_set_context(handle, id);
	add_to_channel(id, to_channel(listener->public.channel));
	return id;
}

void id_discard(struct id *id)
{
	BROKER(rdmabroker_destroy_id_wait(id->handle, RDMABROKER_TIMEOUT_DEFAULT));
	LIST_REMOVE(id, link);
	free_id(id);
}

void id_count_event(struct cm_event *event)
{
	pthread_mutex_lock(&event->id->lock);
	event->id->n_reported++;
	if (event->join)
		event->join->n_reported++;
	pthread_mutex_unlock(&event->id->lock);
}

void id_settle_event(struct cm_event *event)
{
	if (event->event)
		rdmabroker_free_event(event->event);
	pthread_mutex_lock(&event->id->lock);
	event->id->n_acked++;
	if (event->join)
		event->join->n_acked++;
	pthread_cond_broadcast(&event->id->acked);
	pthread_mutex_unlock(&event->id->lock);
}

void id_ack_event(struct rdma_cm_event *public)
{
	struct cm_event *event = container_of(public, struct cm_event, public);

	id_settle_event(event);
	free(event);
}

void id_ack_own_event(struct id *id)
{
	if (id->public.event)
		id_ack_event(id->public.event);
	id->public.event = NULL;
}

static void await_acks(struct id *id, unsigned n)
{
	pthread_mutex_lock(&id->lock);
	while (id->n_acked < n)
		pthread_cond_wait(&id->acked, &id->lock);
	pthread_mutex_unlock(&id->lock);
}

void id_destroy(struct id *id)
{
	struct channel *channel = NULL;

	if (id->handle) {
		channel = to_channel(id->public.channel);
		pthread_mutex_lock(&channel->lock);
		/*
		 * Without the wait, an event that the broker has sent before it destroys the id would make the channel's
		 * descriptor readable later, and a program that then calls rdma_get_cm_event() would find no event, and wait.
		 */
		BROKER(rdmabroker_destroy_id_wait(id->handle, RDMABROKER_TIMEOUT_DEFAULT));
		id->handle = NULL;
		LIST_REMOVE(id, link);
		pthread_mutex_unlock(&channel->lock);
	}
	/* Now no thread takes an event of the id, so n_reported does not change any more. */
	id_ack_own_event(id);
	await_acks(id, id->n_reported);
	if (channel && id->sync)
		channel_free(channel);
	free_id(id);
}

static int move(struct id *id, struct channel *from, struct channel *to, unsigned *ret_n_reported)
{
	int r;

	pthread_mutex_lock(&from->lock);
	r = BROKER(rdmabroker_migrate_id(id->handle, to->session.broker));
	if (r == 0)
		LIST_REMOVE(id, link);
	*ret_n_reported = id->n_reported;
	pthread_mutex_unlock(&from->lock);
	if (r < 0)
		return r;
	pthread_mutex_lock(&to->lock);
	add_to_channel(id, to);
	pthread_mutex_unlock(&to->lock);
	return 0;
}

int id_migrate(struct id *id, struct channel *to)
{
	struct channel *from = to_channel(id->public.channel);
	bool sync = !to;
	unsigned n;
	int r;

	if (sync)
		to = channel_new(sync);
	if (!to)
		return -1;
	r = move(id, from, to, &n);
	if (r < 0) {
		if (sync)
			channel_free(to);
		return report_result("rdma_migrate_id", r);
	}
	if (id->sync) {
		id_ack_own_event(id);
		channel_free(from);
	}
	id->sync = sync;
	/* As in librdmacm: wait for the acks of all events of this id that were taken before the move. */
	await_acks(id, n);
	return 0;
}

static void learn_addrs(struct id *id)
{
	struct rdma_addr *addr = &id->public.route.addr;
	const struct sockaddr *local = rdmabroker_get_local_addr(id->handle);
	const struct sockaddr *peer = rdmabroker_get_peer_addr(id->handle);

	memcpy(&addr->src_storage, local, addr_len(local));
	memcpy(&addr->dst_storage, peer, addr_len(peer));
}

/* The INIT attributes have the id's port number and P_Key index. On Ethernet, librdmacm sets the address's P_Key to 0. */
static int learn_port(struct id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct port port;
	__be16 pkey;
	int mask, r;

	r = BROKER(rdmabroker_init_qp_attr(id->handle, &attr, &mask));
	if (r < 0)
		return r;
	id->public.port_num = attr.port_num;
	if (device_get_port(id->device, attr.port_num, &port) < 0 || port.is_ethernet)
		return 0;
	if (ibv_query_pkey(id->device->verbs, attr.port_num, attr.pkey_index, &pkey) == 0)
		id->public.route.addr.addr.ibaddr.pkey = pkey;
	return 0;
}

int id_learn(struct id *id)
{
	const char *name = rdmabroker_get_device_name(id->handle);
	int r;

	learn_addrs(id);
	if (name && !id->device) {
		r = device_get(name, &id->device);
		if (r < 0)
			return r;
		id->public.verbs = id->device->verbs;
		id->public.pd = id->device->pd;
		id->private.device = &id->device->for_librdmacm;
		r = learn_port(id);
		if (r < 0)
			return r;
	}
	route_learn_gids(id);
	return 0;
}
