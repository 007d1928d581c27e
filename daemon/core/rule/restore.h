/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Makes sessions and ids of a previous process of the daemon anew, from the rows of its ledger. First the ids that live
 * on take their place (restore_living()). Listeners follow (restore_other()), and get the connection requests that have
 * waited. Then fabric_takeover_rest() ends all others in the kernel, so that their ports are free, and restore_other()
 * makes the rest anew, or ends them with an event:
 *
 *   CONNECTING, RESPONDED, REQUEST, ACCEPTED,  live on. If an event of the id can have been lost, the kernel is asked
 *   ESTABLISHED, DISCONNECTING, DISCONNECTED   what became of the connection. FAILED, if that cannot be known.
 *   ids that have joined multicast groups      live on
 *   IDLE, BOUND, LISTENING                     are made anew, with their port
 *   ADDR_QUERY                                 the address is resolved again, and the outcome is told
 *   ADDR_RESOLVED, ROUTE_RESOLVED              address and route are resolved again when the route is requested, or
 *                                              when the id connects
 *   ROUTE_QUERY                                address and route are resolved again, and the outcome is told
 *   FAILED, REMOVED, MOVED, REVOKED            stay
 */

#include <stdbool.h>

#include "core/object/session.h"

struct ledger_group;
struct ledger_id;
struct ledger_request;
struct ledger_session;

/* What the ledger has of an id. */
struct left_id {
	const struct ledger_id *row;
	const struct ledger_group *groups; /* the groups that it has joined */
	size_t n_groups;
	const struct ledger_request *request; /* NULL: it is no connection request */
	bool event_lost; /* see old_ledger.event_lost */
};

/*
 * As session_new(), for the client that the session of ROW had. PIDFD is the session's, or -1; it is taken over, also
 * on failure. The session has what ROW permits; enforce_start() ends what the policy no longer allows.
 */
int restore_session(struct session **ret, struct core *core, int sock, int pidfd,
		    const struct ledger_session *row, const struct session_ops *ops,
		    void *userdata);
/*
 * If the client has not got the event that ends a resolution, ROW gets the state before the event, so that the id is
 * resolved again. To be called before all of the following.
 */
void restore_undo(struct ledger_id *row);
/* True: the id is one of those that live on. It exists now, unless memory has run out. */
bool restore_living(struct session *session, const struct left_id *left_id);
/* Passes a connection request that has waited to its listener. A fabric_request_fn. */
bool restore_request(void *core, enum rdma_port_space ps, struct fabric_event *event);
/* Returns 0 or a negative errno: the id is lost, and the client was not told. */
int restore_other(struct session *session, const struct left_id *left_id);
