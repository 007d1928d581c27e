/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A story: the daemon starts, the sessions of several clients use it in many ways, and the daemon ends. If a step
 * fails, its call must return an errno. Steps that depend on a failed step are left out, and the story goes on.
 */

#include <stdbool.h>

/* The number of calls that fail without a fault: they connect to a port without a listener. */
#define STORY_N_REFUSED 4u

struct story {
	const char *dir; /* directory of the configuration, the rules and the socket */
	unsigned n_done, n_failed; /* numbers of calls that succeeded and that failed */
	bool started; /* the daemon has started */
	bool met; /* the daemon started, and the fault occurred before its end */
	unsigned n_deadlines; /* number of waits that ended only by their deadline */
	bool broken; /* an error was found, and printed */
};

void story_run(struct story *story);
