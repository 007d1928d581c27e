/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A story: the daemon starts, several clients use it in many ways, and the daemon ends. If a step fails, its call
 * must return an errno. The story leaves out the steps that depend on it, and goes on.
 */

#include <stdbool.h>

/* Calls that fail without a fault: they connect to a port without a listener. */
#define STORY_N_REFUSED 4u

struct story {
	const char *dir; /* directory of the configuration, the rules and the socket */
	unsigned n_done, n_failed; /* numbers of calls */
	bool started; /* the daemon has started */
	bool met; /* the fault occurred between the daemon's start and its end */
	unsigned n_deadlines; /* number of waits that ended by their deadline */
	bool broken; /* an error was found, and printed */
};

void story_run(struct story *story);
