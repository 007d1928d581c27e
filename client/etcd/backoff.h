/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Pauses between attempts: 0.1 s, twice as long after each failure, up to 30 s, unless the user sets other
 * limits. All zero is the initial state.
 */

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS 30000

struct backoff {
	unsigned ms; /* the longest that the last pause could be; 0: there was no failure */
	unsigned first_ms, max_ms; /* 0: those above */
};

/*
 * The length of the pause after another failure, in ms. It is between half of the current length and all of it, at random,
 * so that many hosts do not come at the same time when etcd is back.
 */
unsigned backoff_fail(struct backoff *backoff);
void backoff_reset(struct backoff *backoff);
