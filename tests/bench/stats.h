/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What all measurements do with their times. */

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static inline double now_us(void)
{
	return (double)now_ns() / 1e3;
}

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts VALUES. Returns the value below or at which PERCENT of them are; 0: there is none. */
static inline double percentile(double *values, size_t n, unsigned percent)
{
	qsort(values, n, sizeof(*values), compare_doubles);
	return n > 0 ? values[(n - 1) * percent / 100] : 0;
}

static inline double median(double *values, size_t n)
{
	return percentile(values, n, 50);
}
