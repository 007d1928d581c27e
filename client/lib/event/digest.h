/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Converts events, and applies them to their id and its QP when the program takes them. */

#include "client/lib/event/queue.h"

/* Apply RAW to its id, and make the public event. NULL: out of memory, RAW was not applied. Call without the lock. */
struct rdmabroker_event *digest_event(struct raw_event *raw);
