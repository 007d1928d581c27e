/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Address and route resolution; for the verbs' results see bind.h. */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

struct failure;
struct id;

/*
 * Starts to resolve the address DST. SRC is the local address; NULL: the kernel chooses one. If the id is bound, SRC
 * is ignored. TIMEOUT_MS 0: the timeout of the settings. ROUTE: the route is resolved too, as soon as the address is
 * resolved.
 */
int resolve_addr(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		 unsigned timeout_ms, bool route, struct failure *failure);
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
 * Starts the route resolution that the client requested with resolve_addr(), if the address is resolved. No effect
 * while a resolution is pending. If the resolution cannot be started, the client gets ROUTE_ERROR.
 */
void resolve_go_on(struct id *id);
