/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The daemon and the library in one process and one thread, for callgrind. When the library would wait, the daemon
 * runs.
 *
 * Every run executes the same instructions, because time advances only in single_step_time(), and because the daemon's
 * loop runs only when a source is ready or the library waits.
 */

#include <stdbool.h>

#include "tests/bench/host/host.h"

/* What callgrind cannot tell apart: that of the daemon, and of all else. */
struct single_counts {
	unsigned long allocations;
	unsigned long bytes; /* that were sent */
	unsigned long polls, recvmmsgs; /* system calls */
};

extern bool single_collects; /* callgrind counts what the daemon does */
extern struct single_counts single_counts[2]; /* [1]: of the daemon */

/* Makes a place for the daemon. KEEPS: the daemon writes its ledger, as under systemd. */
struct broker *single_start(bool keeps);
void single_step_time(long ms);
/* One turn of the daemon's loop. Returns whether a source was ready or due. */
bool single_turn(void);
/* Runs the daemon until no source is ready. */
void single_run(void);
