/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "rdmacm.h"

/* librdmacm's calls about multicast groups, by the library's. */

static int join_group(struct id *id, struct sockaddr *addr, uint32_t flags, void *context)
{
	struct channel *channel = to_channel(id->public.channel);
	unsigned bits = flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER ? 2 : 1;
	struct join *join;
	int r;

	if (!is_address(addr))
		return fail(EINVAL);
	join = join_new(addr, flags, context);
	if (!join)
		return fail(ENOMEM);

	/* Under the lock, so that the join is in the list before its event is taken. */
	pthread_mutex_lock(&channel->lock);
	LIST_INSERT_HEAD(&id->joins, join, link);
	r = BROKER(rdmabroker_join_multicast(id->handle, addr, bits, join));
	if (r < 0) {
		LIST_REMOVE(join, link);
		free(join);
	}
	pthread_mutex_unlock(&channel->lock);
	return r < 0 ? report_result("rdma_join_multicast", r) : event_await_outcome(id);
}

int rdma_join_multicast(struct rdma_cm_id *public, struct sockaddr *addr, void *context)
{
	struct id *id = to_id(public);

	FORWARD_ID(rdma_join_multicast, public, addr, context);
	return join_group(id, addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

int rdma_join_multicast_ex(struct rdma_cm_id *public, struct rdma_cm_join_mc_attr_ex *attr,
			   void *context)
{
	struct id *id = to_id(public);

	FORWARD_ID(rdma_join_multicast_ex, public, attr, context);
	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return fail(ENOTSUP);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) ||
	    !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return fail(EINVAL);
	return join_group(id, attr->addr, attr->join_flags, context);
}

int rdma_leave_multicast(struct rdma_cm_id *public, struct sockaddr *addr)
{
	struct id *id = to_id(public);
	struct channel *channel;
	struct join *join;
	int r = 0;

	FORWARD_ID(rdma_leave_multicast, public, addr);
	if (!is_address(addr))
		return fail(EINVAL);
	channel = to_channel(public->channel);
	pthread_mutex_lock(&channel->lock);
	join = join_find(id, addr);
	if (join) {
		LIST_REMOVE(join, link);
		join_detach(join, id);
		r = BROKER(rdmabroker_leave_multicast(id->handle, addr));
	}
	pthread_mutex_unlock(&channel->lock);
	if (!join)
		return fail(EADDRNOTAVAIL);
	/* A sync id keeps its last event. If this is an event of the join, it has to be acked before the wait. */
	if (id->sync)
		id_ack_own_event(id);
	join_await_acks(join, id);
	free(join);
	return report_result("rdma_leave_multicast", r);
}
