/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Takes the next event for the program: receives it if necessary, and applies it to its id. */

#include <stdint.h>

#include "client/lib/wire/calls.h"
#include "client/rdmabroker.h"

/*
 * Take the first event of ID whose type is in TYPES (bits), or any event if ID is NULL. Wait until DEADLINE, or until
 * CALL has failed. CALL was begun by idcall_begin(), and is ended here; NULL: none. Call it without the lock.
 */
int take_event(struct rdmabroker *session, struct rdmabroker_id *id, uint64_t types,
	       int64_t deadline, struct call *call, struct rdmabroker_event **ret);
