/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Takes the next event for the program: receives it if necessary, and applies it to its id. */

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
