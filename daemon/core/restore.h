/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Makes sessions and ids of a previous process of the daemon anew, from the rows of its ledger. First the ids that live
 * on take their place (restore_living()). Then fabric_inherit_rest() ends all others in the kernel, so that their ports
 * are free. Then restore_other() makes the rest anew, or ends them with an event:
 *
 *   RESPONDED, ACCEPTED, ESTABLISHED,          live on; DISCONNECTED, if the connection has ended meanwhile
 *   DISCONNECTING, DISCONNECTED
 *   IDLE, BOUND, LISTENING                     are made anew, with their port
 *   ADDR_QUERY                                 the address is resolved again, and the outcome is told
 *   ADDR_RESOLVED, ROUTE_RESOLVED              address and route are resolved again when the route is requested, or
 *                                              when the id connects
 *   ROUTE_QUERY                                address and route are resolved again, and the outcome is told
 *   CONNECTING, REQUEST                        CONNECT_ERROR; FAILED
 *   FAILED, REMOVED, MOVED, REVOKED            stay
 */

#include <stdbool.h>

#include "core/session.h"

struct ledger_id;
struct ledger_session;

/*
 * As session_new(), for the client that the session of ROW had. PIDFD is the session's, or -1; it is taken over, also
 * on failure. The session has what ROW permits; enforce_start() ends what the policy no longer allows.
 */
int restore_session(struct session **ret, struct core *core, int sock, int pidfd,
		    const struct ledger_session *row, const struct session_ops *ops,
		    void *userdata);
/* Gives SESSION access again to the devices for which ROW has leases. */
void restore_leases(struct session *session, const struct ledger_session *row);
/* True: the id is one of those that live on. It exists now, unless memory has run out. */
bool restore_living(struct session *session, const struct ledger_id *row);
/* Tells the client that what it has requested for ID has failed, because the broker was restarted. */
void restore_tell(struct id *id, enum rdma_cm_event_type type);
/* Returns 0 or a negative errno: the id is lost, and the client was not told. */
int restore_other(struct session *session, const struct ledger_id *row);
