/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * How far an id has come in finding its peer's address and the route to it, see verbs/resolve_addr.h and
 * verbs/resolve_route.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/object/id_state.h"
#include "util/list.h"

struct fabric_id_info;
struct ibv_path_record;
struct ledger_id;
struct route_ends;

/* What a client says about the route when it requests the address: a bit mask. */
enum route_when {
	ROUTE_LATER = 0, /* it will request the route, when it has the address */
	ROUTE_TOO = 1, /* it requests the route as well */
	ROUTE_AHEAD = 2, /* the route can be resolved before the client is told of the address */
};

/* What becomes of a route that the client has not requested yet, or that has to be resolved once more. */
enum route_plan {
	ROUTE_UNPLANNED, /* nothing, or what the client has requested */
	ROUTE_EARLY, /* the address is being resolved, the route is next */
	ROUTE_HELD, /* the route is being resolved, ADDR_RESOLVED is held back */
	ROUTE_UNREQUESTED, /* the route is being resolved or is resolved, but the client has not requested it */
	ROUTE_DUE, /* the client has requested the route, which is resolved already: ROUTE_RESOLVED is sent soon */
	ROUTE_REBIND, /* the new fabric id is not bound yet: it can have to wait for the port of the old one */
	ROUTE_AGAIN, /* the address is being resolved again, the route is next */
	/* the same, for a client that has the route already, and whose connect waits */
	ROUTE_AGAIN_FOR_CONNECT,
};

struct route {
	/* the TOS and the ACK timeout that the route was resolved with; -1: the kernel's default, and none */
	int tos, ack_timeout;
	/* CLOCK_MONOTONIC: deadline of the address resolution, and of a route resolution ahead */
	uint64_t until_ms;
	/* timeout of a route resolution that was requested with the address and has not begun; 0: none */
	unsigned requested_ms;
	bool info_pending; /* the next event has to have the id's addresses, device and port */

	enum route_plan plan;
	bool path_waits; /* UNREQUESTED: own_path waits until the route is known with which it has to be compared */
	bool unreported; /* UNREQUESTED: the client knows no more than that the address is resolved */
	struct list link; /* route_holds.ids, in HELD and DUE */
	uint64_t held_until_ms; /* CLOCK_MONOTONIC, HELD and DUE: the deadline */
	struct ibv_path_record *own_path; /* see verbs/own_path.h; NULL: none */
	bool path_is_compared; /* OWN_PATH leads where the subnet manager has told */
	/*
	 * The partition that OWN_PATH names, if that is not the id's anyway; else 0. OWN_PATH is not kept over a restart, but
	 * this is, because a connection goes on in this partition.
	 */
	uint16_t path_pkey;
	struct route_ends *again; /* REBIND and AGAIN: where the route led before; else NULL */
};

void route_init(struct route *route);
void route_done(struct route *route); /* idempotent */
/* Ends what the route was waiting for. */
void route_leave(struct route *route);
/* A request of the client waits until the id is in a state from which its route leads no further. */
bool route_is_awaited(const struct route *route);
void route_move(struct route *to, struct route *from);
/*
 * STATE: the id's. ROW gets the one that the client knows of: if the route is resolved ahead, the id is further than
 * the client knows; if it is resolved again, less far.
 */
void route_save(const struct route *route, enum id_state state, struct ledger_id *row);

/* The route is to be resolved again, to the ends that INFO has. Returns 0 or -ENOMEM. */
int route_resolve_again(struct route *route, const struct fabric_id_info *info);
/* If the route is to be resolved again, sets RET to the addresses and the device that it had. */
void route_get_old_info(const struct route *route, struct fabric_id_info *ret);
