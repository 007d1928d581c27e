/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Functions that the tests of watching share. */

#include <stdint.h>

#include "tests/unit/harness.h"

/*
 * These rules allow sessions, connect, accept, and two listeners at a time on ports 7471 to 7479. They reject
 * listeners on ports 7480 to 7999 with the reason "not here".
 */
extern const char watch_rules[];

/* Listens, and destroys the listener at once. Returns 0 or a negative errno. */
int try_to_listen(struct rdmabroker *session, uint16_t port);
/* Waits until this many sessions watch. */
void await_watches(unsigned wanted);
