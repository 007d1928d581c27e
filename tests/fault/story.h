/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Everything that two programs and their daemon do with each other, from the daemon's start to its end. A step that
 * fails must fail with an errno. Steps that depend on a failed step are left out, and the story goes on.
 */

#include <stdbool.h>

#define STORY_N_REFUSED 4u /* number of calls that connect to a port without a listener */

struct story {
	const char *dir; /* directory of the configuration, the rules and the socket */
	unsigned n_done, n_failed; /* numbers of calls that succeeded and that failed */
	bool started; /* the daemon has started */
	bool met; /* the fault occurred, after the daemon's start */
	unsigned n_deadlines; /* waits that ended only by their deadline */
	bool broken; /* an error was found, and printed */
};

void story_run(struct story *story);
