/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Route resolution: when the client requests it, together with the address, ahead, or again.
 *
 * Ahead: nearly every program resolves the route as soon as it gets ADDR_RESOLVED. To save
 * the round trip, a client can let the broker resolve the route before it is requested (ROUTE_AHEAD). Then
 * ADDR_RESOLVED is held back until the route is resolved, and reports both (session_event.routed). It is held back
 * only for a short time: if the route takes longer, or fails, ADDR_RESOLVED is sent without the route.
 *
 * The TOS and the ACK timeout become part of a route. If the client or a new policy changes them before the client
 * requests the route, the route that was resolved ahead cannot be used. Because the kernel resolves an id's route
 * only once, the broker then replaces the fabric id by a new one with the same addresses and options, and resolves
 * the address and the route again.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/object/route.h"
#include "util/list.h"

struct fabric_id_info;
struct failure;
struct id;

/* The ids whose ADDR_RESOLVED or ROUTE_RESOLVED is sent later. */
struct route_holds {
	/* id.route.link: the ids in HELD or DUE, in the order of their deadlines */
	struct list ids;
	/* Expires at the first deadline, or earlier: if ids leave the list, it is not set anew. */
	sd_event_source *timer;
	uint64_t armed_ms; /* CLOCK_MONOTONIC: when the timer expires; UINT64_MAX: it is off */
};

int route_holds_init(struct route_holds *holds, sd_event *loop);
void route_holds_done(struct route_holds *holds); /* to be called when all ids are freed */

/* Requests the route. For the result see bind.h. */
int resolve_route(struct id *id, unsigned timeout_ms, struct failure *failure);
/* As resolve_route(), but the route is the program's own path, of LEN bytes, see own_path.h. */
int resolve_route_set_path(struct id *id, unsigned timeout_ms, const uint8_t *path, size_t len,
			   struct failure *failure);
/*
 * The resolution of ID's address has begun. WHEN: what the client wants of the route, and TIMEOUT_MS, which is the
 * address's and the route's own. ROUTE_AHEAD has no effect on datagram ids.
 */
void resolve_route_plan(struct id *id, enum route_when when, unsigned timeout_ms);
/*
 * To be called when the address is resolved and policy has allowed the connection. Begins to resolve the route, if it
 * is to be resolved ahead or again. True: the client gets no ADDR_RESOLVED now.
 */
bool resolve_route_on_address(struct id *id);
/*
 * To be called when the route is resolved, or has failed, as the id's state shows. Sends ADDR_RESOLVED if it was held
 * back. True: the client does not get the event of the route.
 */
bool resolve_route_on_result(struct id *id);
/*
 * To be called when the address resolution, or policy's decision after it, has failed. Ends what
 * was resolved ahead. True: the client waits for a route, and the address was only resolved again for that. So the
 * client gets ROUTE_ERROR in place of ADDR_ERROR.
 */
bool resolve_route_fails(struct id *id);
/*
 * The address of ID was resolved by a previous process of the daemon. ID has a new fabric id, and INFO the addresses of
 * the old one: they are resolved again when the client requests the route. Returns 0 or -ENOMEM.
 */
int resolve_route_restore(struct id *id, const struct fabric_id_info *info);
/*
 * To be called before ID connects. If the route of ID has to be resolved again, although the client has got it already
 * (resolve_route_restore()), begins that and returns -EINPROGRESS: the client's request waits. Returns STATUS_BAD_STATE
 * if the client has neither requested the route nor been told that it is resolved. Returns 0 in all other cases; or as
 * resolve_route() does.
 */
int resolve_route_before_connect(struct id *id, struct failure *failure);
/*
 * To be called when an event was sent. If the address is resolved, starts the route resolution that the client
 * requested with ROUTE_TOO. If that fails, the client gets ROUTE_ERROR. No effect while a resolution is pending.
 */
void resolve_route_go_on(struct id *id);
