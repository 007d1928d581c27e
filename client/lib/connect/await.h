/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Waits for the event that reports the outcome of a call. */

#include "client/lib/event/take.h"

/*
 * Wait for the outcome of CALL. Returns 0 for an event whose type is in GOOD (bits), else the error of an event in
 * BAD or of the reply to CALL; -ETIMEDOUT: neither came in time. Other events of the id stay queued.
 */
int await_outcome(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		  int64_t deadline);
/*
 * Like await_outcome(). *RET is the event, which the caller has to free, also if its type is in BAD; NULL: none came.
 */
int await_event(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		int64_t deadline, struct rdmabroker_event **ret);
/*
 * Fails as EVENT, a DEVICE_REMOVAL, says: -ENODEV, or -EACCES if policy or an admin has ended the id. NAME is the
 * program's call.
 */
int await_explain_removal(const struct rdmabroker_event *event, const char *name);
