/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Address and route resolution, and the connect that can follow; for the verbs' results see bind.h. */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/pool.h"
#include "proto/private_data.h"

struct failure;
struct id;

/*
 * A deferred connect: the broker connects the id once its route is resolved. The client has created the QP
 * already, for the device, port and P_Key index below, which it expects the route to use.
 */
struct plan {
	struct rdma_conn_param param; /* private_data points into the field below, or is NULL */
	uint8_t private_data[PRIVATE_DATA_CONNECT];
	struct ibv_ece local_ece;
	char device[64];
	uint8_t port_num;
	uint16_t pkey_index;
	bool has_key; /* KEY is set: the pool can keep spares for this destination */
	struct pool_key key;
	/* called when the owner of the QP is known: repeats the connect */
	void (*go_on)(struct id *id);
};

/*
 * Starts to resolve the address DST. SRC is the local address; NULL: the kernel chooses one. If the id is bound, SRC
 * is ignored. TIMEOUT_MS 0: the timeout of the settings. ROUTE: the route is resolved too, as soon as the address is
 * resolved. PLAN: the connect that follows, which is copied; NULL: none. With PLAN, an id that has no fabric id yet
 * takes a spare from the pool and connects at once, if there is a suitable spare.
 */
int resolve_addr(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		 unsigned timeout_ms, bool route, const struct plan *plan, struct failure *failure);
int resolve_route(struct id *id, unsigned timeout_ms, struct failure *failure);

/*
 * Starts to resolve the address DST, without a decision of policy. SRC NULL: the id's own address or, if it is not
 * bound, one that the kernel chooses. Returns 0 or a negative errno.
 */
int resolve_start(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		  unsigned timeout_ms);
/* To be called when the id's route resolution has begun: records the options that it uses. Enters ROUTE_QUERY. */
void resolve_on_route_begun(struct id *id);
/* The time in ms that the address resolution has left of its timeout, for the route: at least 1. */
unsigned resolve_get_left_ms(const struct id *id);

/*
 * To be called when address resolution has failed with STATUS. True: the resolution was started again, because STATUS
 * is -ETIMEDOUT and the deadline has not passed.
 */
bool resolve_again(struct id *id, int status);
/*
 * Starts the next step that the client requested with resolve_addr(): the route resolution, or the connect (the
 * plan). No effect while a resolution is pending. If the step cannot be started, the client gets ROUTE_ERROR or
 * CONNECT_ERROR, and the plan is dropped. If the id's state allows neither step, only drops the plan.
 */
void resolve_go_on(struct id *id);
/*
 * True: the route uses the device, port and P_Key (from INIT, the QP attributes) that the plan expects.
 * False: there is no plan, or it did not match and was dropped.
 */
bool resolve_keeps_plan(struct id *id, const struct ibv_qp_attr *init);
