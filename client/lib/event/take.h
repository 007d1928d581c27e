/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Takes the next event for the program, or the one that reports the outcome of a call: receives it if necessary, and
 * applies it to its id.
 */

#include <stdint.h>

#include "client/lib/wire/calls.h"
#include "client/rdmabroker.h"

/*
 * Take the first event of ID whose type is in TYPES (bits); ID NULL: the first event of any id, or LOST. The wait
 * ends at DEADLINE (-EAGAIN), when CALL has failed (its error), or when the session is lost (-ECONNRESET). Ends CALL;
 * NULL: no call. The lock must not be held.
 */
int take_event(struct rdmabroker *session, struct rdmabroker_id *id, uint64_t types,
	       int64_t deadline, struct call *call, struct rdmabroker_event **ret);
/*
 * Wait for an event of ID whose type is in GOOD or BAD (bits), for DEVICE_REMOVAL, or for the failure of CALL.
 * Returns 0 for an event in GOOD, else the error of the event or of CALL; -ETIMEDOUT: none of these came by DEADLINE.
 * Other events of the id stay queued. Ends CALL.
 */
int take_outcome(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		 int64_t deadline);
/*
 * Like take_outcome(). *RET is the event that ended the wait, also on failure; the caller has to free it. NULL: no
 * event ended the wait.
 */
int take_outcome_event(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		       int64_t deadline, struct rdmabroker_event **ret);
