/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * All that two programs and their daemon do with each other, from the daemon's start to its end. A step
 * that fails has to fail with an errno; what depends on it is left out, and the story goes on.
 */

#include <stdbool.h>

#define STORY_N_REFUSED 4u /* calls that go to where nobody listens */

struct story {
	const char *dir; /* of configuration, rules and socket */
	unsigned n_done, n_failed; /* calls */
	bool started; /* the daemon */
	bool met; /* the fault, after the daemon's start */
	unsigned n_deadlines; /* waits that nothing but the deadline ended */
	bool broken; /* something is not as it has to be; printed */
};

void story_run(struct story *story);
