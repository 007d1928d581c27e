/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stdint.h>
#include <time.h>

/* The time of CLOCK_MONOTONIC in ms. It is signed, so that a deadline that has passed is a negative difference. */
static inline int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
