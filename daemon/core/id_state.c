/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "core/id.h"
#include "core/id_state.h"
#include "core/listener.h"
#include "core/record.h"
#include "core/timewait.h"
#include "core/whois.h"
#include "proto/names.h"
#include "util/clock.h"
#include "util/util.h"

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

/* By old and new state: the phase of a connection that ends with this change, plus 1; 0: none. */
static const uint8_t phases[_ID_STATE_MAX][_ID_STATE_MAX] = {
	[ID_ADDR_QUERY][ID_ADDR_RESOLVED] = PHASE_RESOLVE_ADDR + 1,
	[ID_ROUTE_QUERY][ID_ROUTE_RESOLVED] = PHASE_RESOLVE_ROUTE + 1,
	[ID_CONNECTING][ID_RESPONDED] = PHASE_CONNECT + 1,
	[ID_CONNECTING][ID_ESTABLISHED] = PHASE_CONNECT + 1,
	[ID_REQUEST][ID_ACCEPTED] = PHASE_ACCEPT + 1,
	[ID_RESPONDED][ID_ESTABLISHED] = PHASE_ESTABLISH + 1,
	[ID_ACCEPTED][ID_ESTABLISHED] = PHASE_ESTABLISH + 1,
	[ID_DISCONNECTING][ID_DISCONNECTED] = PHASE_DISCONNECT + 1,
};

static void measure(struct id *id, enum id_state to)
{
	struct metrics *metrics = &id->session->core->metrics;
	uint8_t phase = phases[id->state][to];
	uint64_t now = clock_ns();

	if (phase > 0)
		histogram_observe(&metrics->phases[phase - 1], now - id->state_since_ns);
	id->state_since_ns = now;
}

/* A datagram id in ACCEPTED has answered a service look-up, and no handshake follows. */
static bool is_handshake(const struct id *id)
{
	return id->state == ID_CONNECTING || id->state == ID_RESPONDED ||
	       (id->state == ID_ACCEPTED && !id_is_datagram(id));
}

void id_set_state(struct id *id, enum id_state state)
{
	struct core *core = id->session->core;

	core->n_listeners -= id->state == ID_LISTENING;
	core->n_connections -= id->state == ID_ESTABLISHED && !id_is_datagram(id);
	core->n_handshakes -= is_handshake(id);
	measure(id, state);
	if (state == ID_DISCONNECTING)
		id->ended_from = id->state;
	id->unconfirmed = state == ID_DISCONNECTED && id->state != ID_DISCONNECTING &&
			  id->session->confirms;
	id->state = state;
	core->n_handshakes += is_handshake(id);
	core->n_listeners += id->state == ID_LISTENING;
	core->n_connections += id->state == ID_ESTABLISHED && !id_is_datagram(id);
	if (core->whois)
		whois_update(id);
	if (state == ID_DISCONNECTED && !id->unconfirmed)
		timewait_enter(id);
	if (state != ID_REQUEST) {
		admitted_answered(&id->admitted);
		listener_answered(id);
		free(id->request);
		id->request = NULL;
	}
	if (state == ID_DISCONNECTED || state == ID_FAILED || state == ID_REMOVED)
		admitted_done(&id->admitted);
	record_state(id);
}

int id_refuse_state(struct id *id, const char *verb, struct failure *failure)
{
	return failure_set(failure, STATUS_BAD_STATE, "%s: id %u is %s", verb, id->handle,
			   state_names[id->state]);
}
