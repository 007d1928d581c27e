/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/object/route.h"
#include "fabric/fabric.h"
#include "proto/text.h"
#include "takeover/ledger.h"
#include "util/util.h"

/* The addresses of the old fabric id, which the new one gets, and its device, to which they must lead again. */
struct route_ends {
	struct sockaddr_storage local, peer;
	char device[64];
};

void route_init(struct route *route)
{
	route->tos = route->ack_timeout = -1;
	list_init(&route->link);
}

void route_leave(struct route *route)
{
	list_remove(&route->link);
	free(route->again);
	route->again = NULL;
}

bool route_is_awaited(const struct route *route)
{
	return route->plan == ROUTE_AGAIN_FOR_CONNECT || route->path_waits;
}

void route_done(struct route *route)
{
	route_leave(route);
	free(route->own_path);
	route->own_path = NULL;
}

void route_move(struct route *to, struct route *from)
{
	*to = *from;
	list_init(&to->link);
	/* TO takes the place of FROM in route_holds.ids, whose timer stays as it is. */
	if (!list_is_empty(&from->link))
		list_insert(&from->link, &to->link);
	from->again = NULL;
	from->own_path = NULL;
	from->plan = ROUTE_UNPLANNED;
	route_done(from);
}

static enum id_state state_for_client(const struct route *route, enum id_state state)
{
	if (route->plan == ROUTE_UNPLANNED ||
	    !(IN(state) & (IN(ID_BOUND) | IN(ID_ADDR_QUERY) | IN(ID_ADDR_RESOLVED) |
			   IN(ID_ROUTE_QUERY) | IN(ID_ROUTE_RESOLVED))))
		return state;
	switch (route->plan) {
	case ROUTE_HELD:
		return ID_ADDR_QUERY;
	case ROUTE_UNREQUESTED:
	case ROUTE_REBIND:
		return ID_ADDR_RESOLVED;
	case ROUTE_DUE:
	case ROUTE_AGAIN:
		return ID_ROUTE_QUERY;
	case ROUTE_AGAIN_FOR_CONNECT:
		return ID_ROUTE_RESOLVED;
	default:
		return state;
	}
}

void route_save(const struct route *route, enum id_state state, struct ledger_id *row)
{
	row->route = route->requested_ms > 0;
	row->ahead = route->plan == ROUTE_EARLY || route->plan == ROUTE_HELD;
	row->path_pkey = route->path_pkey;
	row->state = (uint8_t)state_for_client(route, state);
}

int route_resolve_again(struct route *route, const struct fabric_id_info *info)
{
	struct route_ends *again = calloc(1, sizeof(*again));

	if (!again)
		return -ENOMEM;
	again->local = info->local;
	again->peer = info->peer;
	if (info->device)
		text_copy(again->device, sizeof(again->device), info->device);
	route_leave(route);
	route->again = again;
	route->plan = ROUTE_REBIND;
	return 0;
}

void route_get_old_info(const struct route *route, struct fabric_id_info *ret)
{
	const struct route_ends *again = route->again;

	if (!again)
		return;
	ret->local = again->local;
	ret->peer = again->peer;
	ret->device = again->device;
}
