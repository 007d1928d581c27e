/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Functions that the tests of watching share. */

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

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

/* A running "rdmabrokerctl events". */
struct child {
	pid_t pid;
	FILE *out;
	char err_path[96];
};

/* Starts rdmabrokerctl, waits until it watches, and leaves it running. */
void start_events(struct child *child, const char *const *argv);
#define START_EVENTS(child, ...)                                                             \
	start_events(child, (const char *const[]){ program, "--socket", harness.socket_path, \
						   "events", __VA_ARGS__, NULL })
const char *read_line(struct child *child); /* also in got.out */
/* Waits for the program's end, and returns its exit status. The program's stderr is in got.err. */
int end_ctl(struct child *child);
