/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Waits for the event that reports the outcome of a call. */

#include "client/lib/event/take.h"

/*
 * Wait for an event of ID whose type is in GOOD or BAD (bits), for DEVICE_REMOVAL, or for the failure of CALL.
 * Returns 0 for an event in GOOD, else the error of the event or of CALL; -ETIMEDOUT: none of these came by DEADLINE.
 * Other events of the id stay queued. Ends CALL.
 */
int await_outcome(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		  int64_t deadline);
/*
 * Like await_outcome(). *RET is the event that ended the wait, also on failure; the caller has to free it. NULL: no
 * event ended the wait.
 */
int await_event(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		int64_t deadline, struct rdmabroker_event **ret);
/*
 * Fails with the reason of EVENT, a DEVICE_REMOVAL: -ENODEV, or -EACCES if policy or an admin has ended the id. NAME
 * is the program's call.
 */
int await_explain_removal(const struct rdmabroker_event *event, const char *name);
