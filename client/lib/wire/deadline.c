/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/lib/wire/deadline.h"
#include "proto/clock.h"

int64_t deadline_after(int64_t ms)
{
	return now_ms() + ms;
}

int64_t deadline_left(int64_t deadline)
{
	return deadline - now_ms();
}

int deadline_timeout_ms(int64_t deadline)
{
	int64_t ms = deadline_left(deadline);

	return ms > 0 ? (int)ms : 1;
}
