/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Converts events for the program, and applies them to their id and its QP. */

#include "client/lib/event/queue.h"

/*
 * Apply RAW to its id, and make the public event. NULL: out of memory, and RAW was not applied. The lock must not be
 * held.
 */
struct rdmabroker_event *digest_event(struct raw_event *raw);
