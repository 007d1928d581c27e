/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Waiting for events by the descriptor that the program polls: rdmabroker_await_event(), and for direct wires (see
 * wire.h) the rule that the descriptor is readable once for each event.
 */

#include <stdbool.h>

struct rdmabroker;

/*
 * To be called before an event of any id is taken. If a packet has to be taken with it, receives that one, if it is
 * there. Lock held.
 */
void blocking_prepare(struct rdmabroker *session);
/* See wire_ops.settle. */
void blocking_settle(struct rdmabroker *session);
