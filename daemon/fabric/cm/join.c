/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/cm/id.h"
#include "fabric/cm/iwarp.h"
#include "fabric/cm/restored.h"
#include "proto/addr.h"

/* Multicast groups. */

static int alloc(struct fabric_join **ret, struct fabric_id *id, const struct sockaddr *addr,
		 void *userdata)
{
	struct fabric_join *join = calloc(1, sizeof(*join));

	if (!join)
		return -ENOMEM;
	join->id = id;
	join->userdata = userdata;
	memcpy(&join->addr, addr, addr_len(addr));
	list_init(&join->link);
	*ret = join;
	return 0;
}

static int join_by_librdmacm(struct fabric_join *join, uint32_t join_flags)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = join_flags,
		.addr = (struct sockaddr *)&join->addr,
	};

	errno = 0;
	return rdma_join_multicast_ex(join->id->cm, &attr, join) == 0 ? 0 : -(errno ?: EIO);
}

int fabric_join_new(struct fabric_join **ret, struct fabric_id *id, const struct sockaddr *addr,
		    uint32_t join_flags, void *userdata)
{
	struct fabric_join *join;
	int r;

	/* It has no multicast, and the kernel would wait for a connect that is under way. */
	if (iwarp_has(id))
		return -EOPNOTSUPP;
	r = alloc(&join, id, addr, userdata);
	if (r < 0)
		return r;
	r = id->cm ? join_by_librdmacm(join, join_flags) : restored_join(join, join_flags);
	if (r < 0) {
		free(join);
		return r;
	}
	*ret = join;
	return 0;
}

int fabric_join_restore(struct fabric_join **ret, struct fabric_id *id, const struct sockaddr *addr,
			void *userdata)
{
	int r = alloc(ret, id, addr, userdata);

	if (r < 0)
		return r;
	(*ret)->is_old = true;
	restored_add_join(*ret);
	return 0;
}

/* librdmacm waits until the join's events are acked. That does not block, because channel.c acks them at once. */
struct fabric_join *fabric_join_free(struct fabric_join *join)
{
	if (!join)
		return NULL;
	if (join->id->cm)
		rdma_leave_multicast(join->id->cm, (struct sockaddr *)&join->addr);
	else
		restored_leave(join);
	free(join);
	return NULL;
}

void *fabric_join_get_userdata(const struct fabric_join *join)
{
	return join->userdata;
}
