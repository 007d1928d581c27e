/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A clock of the broker and of its loop that only the test advances, after stop_time(), so that it does not matter how
 * long the machine takes. It replaces the C library's function: one file of a program includes it.
 */

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/pair.h"

/*
 * The clock stops so far in the future that the kernel's timer does not expire during a test. Check uses the same
 * clock, and cannot report a test of 2^31 us or more. A whole second is a multiple of the time between two batches.
 */
#define AHEAD_S 1000

static uint64_t stopped_usec; /* 0: the clock is the kernel's */

static inline void stop_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	stopped_usec = ((uint64_t)now.tv_sec + AHEAD_S) * 1000000;
}

static inline void step_time(uint64_t usec)
{
	stopped_usec += usec;
	run_loop();
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (stopped_usec == 0)
		return (int)syscall(SYS_clock_gettime, clock, ret);
	*ret = (struct timespec){
		.tv_sec = (time_t)(stopped_usec / 1000000),
		.tv_nsec = (long)(stopped_usec % 1000000 * 1000),
	};
	return 0;
}
