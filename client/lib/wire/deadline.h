/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Deadlines: times of CLOCK_MONOTONIC, in ms. */

#include "proto/clock.h"

static inline int64_t deadline_after(int64_t ms) /* the deadline MS ms from now */
{
	return now_ms() + ms;
}

/* The time left until DEADLINE, in ms; 0 or negative: DEADLINE is past. */
static inline int64_t deadline_left(int64_t deadline)
{
	return deadline - now_ms();
}

/* The time left until DEADLINE as the timeout of a call: at least 1 ms. */
static inline int deadline_timeout_ms(int64_t deadline)
{
	int64_t ms = deadline_left(deadline);

	return ms > 0 ? (int)ms : 1;
}
