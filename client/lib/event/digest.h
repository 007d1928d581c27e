/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Converts events, and applies them to their id and its QP when the program takes them. */

#include "client/lib/event/queue.h"

/* The public event of RAW, which is applied. NULL: out of memory. Not under the lock. */
struct rdmabroker_event *digest_event(struct raw_event *raw);
