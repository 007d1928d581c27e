/* SPDX-License-Identifier: BSD-2-Clause */
#include <time.h>

#include "client/lib/wire/deadline.h"

int64_t deadline_after(int64_t ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + ms;
}

int64_t deadline_left(int64_t deadline)
{
	return deadline - deadline_after(0);
}

int deadline_timeout_ms(int64_t deadline)
{
	int64_t ms = deadline_left(deadline);

	return ms > 0 ? (int)ms : 1;
}
