/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Routes that are resolved ahead. Nearly every program resolves the route as soon as it gets ADDR_RESOLVED. To save
 * the round trip, a client can let the broker resolve the route before it is requested (ResolveAddr.ahead). Then
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

#include "util/list.h"

struct fabric_id_info;
struct failure;
struct id;
struct session_event;

struct aheads {
	/* id.route.link: the ids in HELD or DUE, in the order of their deadlines */
	struct list ids;
	/* Expires at the first deadline, or earlier: if ids leave the list, it is not set anew. */
	sd_event_source *timer;
	uint64_t armed_ms; /* CLOCK_MONOTONIC: when the timer expires; UINT64_MAX: it is off */
};

int aheads_init(struct aheads *aheads, sd_event *loop);
void aheads_done(struct aheads *aheads); /* to be called when all ids are freed */

/*
 * The client wants the route ahead (ResolveAddr.ahead). To be called after resolve_addr(). No effect on datagram ids.
 */
void ahead_want(struct id *id);
/*
 * To be called when the address is resolved and policy has allowed the connection. Begins to resolve the route, if it
 * is to be resolved ahead or again. True: the client gets no ADDR_RESOLVED now.
 */
bool ahead_on_address(struct id *id);
/*
 * To be called when the route is resolved, or has failed, as the id's state shows. Sends ADDR_RESOLVED if it was held
 * back. True: the client does not get the event of the route.
 */
bool ahead_on_route(struct id *id);
/*
 * To be called when the address resolution, or policy's decision after it, has failed. Ends what
 * was resolved ahead. True: the client waits for a route, and the address was only resolved again for that. So the
 * client gets ROUTE_ERROR in place of ADDR_ERROR.
 */
bool ahead_fails_route(struct id *id);
/*
 * The address of ID was resolved by a previous process of the daemon. ID has a new fabric id, and INFO the addresses of
 * the old one: they are resolved again when the client requests the route. Returns 0 or -ENOMEM.
 */
int ahead_restore(struct id *id, const struct fabric_id_info *info);
/*
 * To be called before ID connects. If the route of ID has to be resolved again, although the client has got it already
 * (ahead_restore()), begins that and returns -EINPROGRESS: the client's request waits. Returns STATUS_BAD_STATE if the client
 * has neither requested the route nor been told that it is resolved. Returns 0 in all other cases; or as resolve_route()
 * does.
 */
int ahead_before_connect(struct id *id, struct failure *failure);
/* As resolve_route(), but also for an id whose route was resolved ahead. Can also return -EINPROGRESS, see bind.h. */
int ahead_resolve_route(struct id *id, unsigned timeout_ms, struct failure *failure);
