/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Deadlines: times of CLOCK_MONOTONIC, in ms. */

#include <stdint.h>

int64_t deadline_after(int64_t ms); /* the deadline MS ms from now */
/* The time left until DEADLINE, in ms; 0 or negative: DEADLINE is past. */
int64_t deadline_left(int64_t deadline);
/* The time left until DEADLINE as the timeout of a call: at least 1 ms. */
int deadline_timeout_ms(int64_t deadline);
