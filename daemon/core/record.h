/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Writes to the ledger (keep/ledger.h) what the next process of the daemon has to know, so that it can take over the
 * sessions and ids. To be called after each change; each call writes all that can have changed. Without a ledger nothing is
 * written, and all ends with this process. If the ledger has no room for a session, the session ends with this process.
 * What it has no room for in a session that is kept is refused when it is made: it would be gone after a restart, and
 * nobody would be told.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>

struct failure;
struct id;
struct ledger_session;
struct restriction;
struct session;
struct workload;

/* What the session may do, what its client belongs to, and whether it watches. */
void record_session(struct session *session);
/* Sets the names that ROW has and RET has not. */
void record_restore_workload(const struct ledger_session *row, struct workload *ret);
void record_leases(struct session *session);
/* Makes room for one more lease of SESSION. False: it could not be kept. */
bool record_reserve_lease(struct session *session);
void record_restriction(struct restriction *restriction);
/* All of ID. */
void record_id(struct id *id);
/* The contents of ID's connection request. False: there is no room for it. */
bool record_request(struct id *id);
/* True: SESSION outlives this process, so all that it has must be kept. */
bool record_keeps(const struct session *session);
/* There is no room to keep WHAT ("ids"). Returns STATUS_QUOTA. */
int record_refuse(struct failure *failure, const char *what);
/* The state of ID, and what can have changed with it. */
void record_state(struct id *id);
/*
 * The kernel has given an event of TYPE. To be called before the state changes; record_told() when the client was told.
 */
void record_untold(struct id *id, enum rdma_cm_event_type type);
void record_told(struct id *id);
