/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Deadlines: times of CLOCK_MONOTONIC, in ms. */

#include <stdint.h>

int64_t deadline_after(int64_t ms); /* from now on */
/* In ms; 0 or negative: it is past. */
int64_t deadline_left(int64_t deadline);
/* The same as the timeout of a call: at least 1. */
int deadline_timeout_ms(int64_t deadline);
