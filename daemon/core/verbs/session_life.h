/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* How sessions begin, are admitted, and end. */

#include "core/object/session.h"

/*
 * Creates the session of the client at the other end of SOCK, which stays the caller's. session_greet() gives the
 * session its permits. DOOR: where the client has connected. RESTRICTION NULL: none. Returns 0 or a negative errno.
 */
int session_new(struct session **ret, struct core *core, int sock, enum door door,
		struct restriction *restriction, const struct session_ops *ops, void *userdata);
/*
 * Gives a new session the number, permits and identity that its client's session had in the previous process (ROW).
 * Takes over PIDFD; -1: none.
 */
void session_restore(struct session *session, int pidfd, const struct ledger_session *row);
/* Also frees all ids and leases of the session. */
struct session *session_free(struct session *session);
/*
 * Ends the session, and frees at most MAX of its ids and of their groups. Returns MAX less the number freed; 0: ids can
 * be left, and it has to be called again.
 */
unsigned session_end(struct session *session, unsigned max);

/*
 * Makes SESSION, which must be restricted, one that another process can adopt, and that can do nothing else. It must
 * not have ids, leases, a watch or a published socket. Returns 0 or STATUS_BAD_STATE.
 */
int session_release(struct session *session, struct failure *failure);

/*
 * Looks up the client's unit, container and so on, for rules that name them. Returns 0: the look-up is done, or not
 * possible; -EINPROGRESS: repeat the call when session_ops.resume is called; STATUS_QUOTA; or another negative errno.
 */
int session_find_workload(struct session *session, struct failure *failure);
/*
 * Decides which permits the session has, and charges the session to its user. Returns 0, STATUS_DENIED, STATUS_BUSY,
 * STATUS_QUOTA or a negative errno. If the result is not 0, the session has no permits.
 */
int session_greet(struct session *session, struct failure *failure);
/*
 * Decides whether a session with other permits has the permit CLIENT, too, because its client requests what needs it.
 * Returns 0, STATUS_NOT_PERMITTED, STATUS_DENIED, STATUS_BUSY or a negative errno.
 */
int session_become_client(struct session *session, struct failure *failure);
/*
 * Returns which of the permits ADMIN and OBSERVE the session has now. COUNTS: a decision that allows is counted and
 * reported, as if the client had requested it.
 */
unsigned session_permits_over_others(struct session *session, bool counts);
/*
 * SESSION goes on without its client's socket, ids, watch and place in the ledger, after session_end() has returned
 * true. What it has to report goes to OPS.
 */
void session_leave_client(struct session *session, const struct session_ops *ops, void *userdata);
