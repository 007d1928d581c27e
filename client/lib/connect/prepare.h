/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The calls that precede a connection: set options, bind, listen, and resolve the address and the route. */

#include "client/lib/wire/calls.h"

struct rdmabroker_id;
struct sockaddr;

/*
 * Send the request of resolve_addr, or of resolve if ROUTE is set. CALL not NULL: begin CALL, for a caller that waits for
 * the outcome and has to end it by call_end().
 */
int prepare_resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			 const struct sockaddr *dst, int timeout_ms, bool route, struct call *call);
int prepare_resolve_route(struct rdmabroker_id *id, int timeout_ms, struct call *call);
