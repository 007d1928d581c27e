/* SPDX-License-Identifier: BSD-2-Clause */
#include <netdb.h>

#include "client/lib/wire/deadline.h"
#include "client/rdmabroker.h"

/* rdmabroker_create_ep(): an id with address, device and queue pair in one call, as rdma_create_ep() makes it. */

int rdmabroker_create_ep(struct rdmabroker *session, const struct addrinfo *info,
			 enum rdmabroker_port_space ps, struct ibv_pd *pd,
			 struct ibv_qp_init_attr *attr, int timeout_ms, struct rdmabroker_id **ret)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct rdmabroker_id *id;
	int r = rdmabroker_create_id(session, ps, NULL, &id);

	if (r < 0)
		return r;
	if (info->ai_flags & AI_PASSIVE) {
		r = rdmabroker_bind_addr(id, info->ai_addr);
	} else {
		r = rdmabroker_resolve_addr_wait(id, NULL, info->ai_addr,
						 deadline_timeout_ms(deadline));
		if (r == 0)
			r = rdmabroker_resolve_route_wait(id, deadline_timeout_ms(deadline));
		if (r == 0 && attr)
			r = rdmabroker_create_qp(id, pd, attr);
	}
	if (r < 0)
		rdmabroker_destroy_id(id);
	else
		*ret = id;
	return r;
}
