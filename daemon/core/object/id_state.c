/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/id_state.h"

static const struct {
	const char *string, *word;
} states[_ID_STATE_MAX] = {
	[ID_IDLE] = { "idle", "idle" },
	[ID_BOUND] = { "bound", "bound" },
	[ID_LISTENING] = { "listening", "listening" },
	[ID_ADDR_QUERY] = { "resolving the address", "resolving-addr" },
	[ID_ADDR_RESOLVED] = { "address resolved", "addr-resolved" },
	[ID_ROUTE_QUERY] = { "resolving the route", "resolving-route" },
	[ID_ROUTE_RESOLVED] = { "route resolved", "route-resolved" },
	[ID_CONNECTING] = { "connecting", "connecting" },
	[ID_RESPONDED] = { "waiting to be established", "responded" },
	[ID_REQUEST] = { "an unanswered connection request", "request" },
	[ID_ACCEPTED] = { "accepted", "accepted" },
	[ID_ESTABLISHED] = { "established", "established" },
	[ID_DISCONNECTING] = { "disconnecting", "disconnecting" },
	[ID_DISCONNECTED] = { "disconnected", "disconnected" },
	[ID_FAILED] = { "failed", "failed" },
	[ID_REMOVED] = { "unusable, because its device was removed", "removed" },
	[ID_MOVED] = { "owned by another session", "moved" },
	[ID_REVOKED] = { "revoked by policy or an admin", "revoked" },
};

const char *id_state_to_string(enum id_state state)
{
	return states[state].string;
}

const char *id_state_to_word(enum id_state state)
{
	return states[state].word;
}
