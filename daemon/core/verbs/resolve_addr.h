/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Address resolution, from the client's request to the address and the device that the kernel has found, or to the
 * reason why there is none. The route is in resolve_route.h.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/object/route.h"

struct failure;
struct id;

/*
 * Starts to resolve the address DST. SRC NULL: the kernel chooses the local address. If the id is bound, SRC is
 * ignored. TIMEOUT_MS 0: the timeout of the settings. ROUTE: see resolve_route.h. For the result see bind.h.
 */
int resolve_addr(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		 unsigned timeout_ms, enum route_when route, struct failure *failure);

/*
 * Starts to resolve the address DST, without a decision of policy. SRC NULL: the id's own address, or one that the
 * kernel chooses. Returns 0 or a negative errno.
 */
int resolve_start(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		  unsigned timeout_ms);
/* TIMEOUT_MS, which a client has given, within the limit of the settings. */
unsigned resolve_cap_timeout(const struct id *id, unsigned timeout_ms);
/* The rest of the address resolution's timeout in ms, at least 1. */
unsigned resolve_get_left_ms(const struct id *id);

/*
 * Address resolution has failed with STATUS. True: the resolution was started again, because it timed out before the
 * deadline.
 */
bool resolve_again(struct id *id, int status);
/*
 * The address or the route was resolved with the result STATUS, 0 or a negative errno. If the error alone does not
 * tell why it failed, sets FAILURE, and returns it. NULL: it has not failed, or there is no more to say.
 */
const struct failure *resolve_explain(const struct id *id, int status, struct failure *failure);
/*
 * The address of ID is resolved. True: policy can decide only when it is known who the peer is, so ADDR_RESOLVED is
 * dispatched again later.
 */
bool resolve_asks(struct id *id);
