/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>

#include "core/facts/metrics.h"
#include "core/object/id_state.h"
#include "proto/names.h"

static const char *const state_names[_ID_STATE_MAX] = {
	[ID_IDLE] = "idle",
	[ID_BOUND] = "bound",
	[ID_LISTENING] = "listening",
	[ID_ADDR_QUERY] = "resolving the address",
	[ID_ADDR_RESOLVED] = "address resolved",
	[ID_ROUTE_QUERY] = "resolving the route",
	[ID_ROUTE_RESOLVED] = "route resolved",
	[ID_CONNECTING] = "connecting",
	[ID_RESPONDED] = "waiting to be established",
	[ID_REQUEST] = "an unanswered connection request",
	[ID_ACCEPTED] = "accepted",
	[ID_ESTABLISHED] = "established",
	[ID_DISCONNECTING] = "disconnecting",
	[ID_DISCONNECTED] = "disconnected",
	[ID_FAILED] = "failed",
	[ID_REMOVED] = "unusable, because its device was removed",
	[ID_MOVED] = "owned by another session",
	[ID_REVOKED] = "revoked by policy or an admin",
};

static const char *const state_words[_ID_STATE_MAX] = {
	[ID_IDLE] = "idle",
	[ID_BOUND] = "bound",
	[ID_LISTENING] = "listening",
	[ID_ADDR_QUERY] = "resolving-addr",
	[ID_ADDR_RESOLVED] = "addr-resolved",
	[ID_ROUTE_QUERY] = "resolving-route",
	[ID_ROUTE_RESOLVED] = "route-resolved",
	[ID_CONNECTING] = "connecting",
	[ID_RESPONDED] = "responded",
	[ID_REQUEST] = "request",
	[ID_ACCEPTED] = "accepted",
	[ID_ESTABLISHED] = "established",
	[ID_DISCONNECTING] = "disconnecting",
	[ID_DISCONNECTED] = "disconnected",
	[ID_FAILED] = "failed",
	[ID_REMOVED] = "removed",
	[ID_MOVED] = "moved",
	[ID_REVOKED] = "revoked",
};

const char *id_state_to_string(enum id_state state)
{
	return state_names[state];
}

const char *id_state_to_word(enum id_state state)
{
	return state_words[state];
}

const char *id_event_to_word(enum rdma_cm_event_type type)
{
	return (unsigned)type < METRICS_N_EVENTS ? event_names[type] : NULL;
}
