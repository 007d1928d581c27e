/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Functions that the tests of watching share. */

#include <stdint.h>

#include "tests/unit/harness.h"

extern const char
	watch_rules[]; /* allow listen on ports 7471 to 7479 (two at a time), connect, and accept */

/* Listens, and destroys the listener at once. Returns 0 or a negative errno. */
int try_to_listen(struct rdmabroker *session, uint16_t port);
/* Waits until so many sessions watch. */
void await_watches(unsigned wanted);
