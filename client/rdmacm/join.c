/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

/*
 * The multicast groups that an id has joined: librdmacm's events name a group by the program's pointer, which is kept
 * here.
 */

struct join *join_new(const struct sockaddr *addr, uint32_t flags, void *context)
{
	struct join *join = calloc(1, sizeof(*join));

	if (!join)
		return NULL;
	join->context = context;
	join->flags = flags;
	memcpy(&join->addr, addr, addr_len(addr));
	return join;
}

void joins_free(struct id *id)
{
	struct join *join;

	while ((join = LIST_FIRST(&id->joins))) {
		LIST_REMOVE(join, link);
		free(join);
	}
}

struct join *join_find(struct id *id, const struct sockaddr *addr)
{
	struct join *join;

	LIST_FOREACH(join, &id->joins, link)
		if (memcmp(&join->addr, addr, addr_len(addr)) == 0)
			return join;
	return NULL;
}

int join_attach(struct join *join, struct id *id, const struct rdmabroker_ud_param *ud)
{
	int r;

	join->mgid = ud->ah_attr.grh.dgid;
	join->mlid = ud->ah_attr.dlid;
	if (!id->public.qp || join->flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		return 0;
	r = ibv_attach_mcast(id->public.qp, &join->mgid, join->mlid);
	join->attached = r == 0;
	return -r;
}

void join_detach(struct join *join, struct id *id)
{
	if (join->attached && id->public.qp)
		ibv_detach_mcast(id->public.qp, &join->mgid, join->mlid);
}

void join_await_acks(const struct join *join, struct id *id)
{
	pthread_mutex_lock(&id->lock);
	while (join->n_acked != join->n_reported)
		pthread_cond_wait(&id->acked, &id->lock);
	pthread_mutex_unlock(&id->lock);
}
