/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * How long tests wait.
 *
 * A wait ends when the thing that is awaited happens. Its limit only ends a hang, so that the test says what did not
 * happen. It is no statement about speed: a machine that is ten times slower, or has other work, must not meet it.
 * Therefore all limits of this kind are PATIENCE, which is minutes.
 *
 * Timeouts which a test wants to end are short, and have names of their own. The thing that would end the wait earlier
 * must be impossible then, and not only unlikely.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define PATIENCE_S 180
#define PATIENCE_MS (PATIENCE_S * 1000)
/* A test, which can have several waits. The wait that hangs has to end first, because it knows what it is for. */
#define PATIENCE_TEST_S 600
/* A program of many tests is ended after 1800 s, by tests/unit/run. */
/* A program in the guest, which can have many waits: it ends before its case, which has $case_seconds of guest/lib.sh. */
#define PATIENCE_PROGRAM_S 1000

static inline int64_t patience_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Returns when a wait that begins now has lasted too long. */
static inline int64_t patience_end(void)
{
	return patience_now_ms() + PATIENCE_MS;
}

/* Pauses before something is looked at again, of which no event tells. False: END is over. */
static inline bool patience_pause(int64_t end)
{
	poll(NULL, 0, 1);
	return patience_now_ms() < end;
}
