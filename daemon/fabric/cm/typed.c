/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "fabric/cm/id.h"
#include "fabric/cm/typed.h"
#include "proto/addr.h"

/* Makes an id that is bound to ADDR, on the event channel of FABRIC. */
static int make(struct rdma_cm_id **ret, const struct fabric_id *id, const struct sockaddr *addr)
{
	struct rdma_addrinfo info = {
		.ai_flags = RAI_PASSIVE,
		.ai_family = addr->sa_family,
		.ai_qp_type = id->qp_type,
		.ai_port_space = id->cm->ps,
		.ai_src_len = addr_len(addr),
		.ai_src_addr = (struct sockaddr *)addr,
	};
	int r = cm_result(rdma_create_ep(ret, &info, NULL, NULL));

	if (r < 0)
		return r;
	r = cm_result(rdma_migrate_id(*ret, id->fabric->cm));
	if (r < 0)
		rdma_destroy_ep(*ret);
	return r;
}

int typed_bind(struct fabric_id *id, const struct sockaddr *addr)
{
	struct rdma_cm_id *old = id->cm;
	int r;

	if (id->set[RDMA_OPTION_ID_REUSEADDR] > 0 || id->set[RDMA_OPTION_ID_AFONLY] > 0)
		return -EOPNOTSUPP;
	r = make(&id->cm, id, addr);
	if (r < 0) {
		id->cm = old;
		return r;
	}
	id->cm->context = id;
	/* The kernel has nothing to do for an id that is neither bound nor has had an event. */
	rdma_destroy_id(old);
	return 0;
}
