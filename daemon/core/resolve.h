/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Address and route resolution, and the connect that may follow; for the verbs' results see bind.h. */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/pool.h"
#include "proto/private_data.h"

struct failure;
struct id;

/*
 * A deferred connect: the broker connects the id once its route is resolved. The client has created the QP
 * already, for the device, port and P_Key that it expects the route to use.
 */
struct plan {
	struct rdma_conn_param param; /* private_data points into the field below, or is NULL */
	uint8_t private_data[PRIVATE_DATA_CONNECT];
	struct ibv_ece local_ece;
	char device[64];
	uint8_t port_num;
	uint16_t pkey_index;
	bool has_key; /* KEY is set: the pool may keep spares for this destination */
	struct pool_key key;
	void (*go_on)(struct id *id); /* repeats the connect, once the owner of its QP is known */
};

/*
 * ROUTE: the route is resolved too, as soon as the address is resolved. PLAN: the connect that follows; NULL:
 * none.
 */
int resolve_addr(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		 unsigned timeout_ms, bool route, const struct plan *plan, struct failure *failure);
int resolve_route(struct id *id, unsigned timeout_ms, struct failure *failure);

/*
 * Starts to resolve the address, without a decision. SRC NULL: the id's own address. Returns 0 or a negative errno.
 */
int resolve_start(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		  unsigned timeout_ms);
/* The route resolution has begun with the id's present options. */
void resolve_on_route_begun(struct id *id);
/* The time that is left of the address's timeout for the route, in ms: at least 1. */
unsigned resolve_get_left_ms(const struct id *id);

/*
 * Called when address resolution has failed with STATUS. True: the resolution was started again, because STATUS is
 * -ETIMEDOUT and the deadline has not passed.
 */
bool resolve_again(struct id *id, int status);
/*
 * Starts the next step that the client requested with resolve_addr(): the route resolution, or the connect (the
 * plan). No effect while a resolution is pending. If the id's state allows neither step, drops the plan.
 */
void resolve_go_on(struct id *id);
/*
 * True: the route uses the device, port and P_Key (from INIT, the QP attributes) that the plan expects.
 * False: there is no plan, or it did not match and was dropped.
 */
bool resolve_keeps_plan(struct id *id, const struct ibv_qp_attr *init);
