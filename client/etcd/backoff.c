/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/random.h>

#include "backoff.h"

unsigned backoff_fail(struct backoff *backoff)
{
	unsigned max_ms = backoff->max_ms ?: BACKOFF_MAX_MS, chance = 0, half;

	if (backoff->ms == 0)
		backoff->ms = backoff->first_ms ?: BACKOFF_FIRST_MS;
	else if (backoff->ms < max_ms / 2)
		backoff->ms *= 2;
	else
		backoff->ms = max_ms;
	half = backoff->ms / 2;
	/* Without a random number the pause is the shortest one. */
	if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) != sizeof(chance))
		chance = 0;
	return half + chance % (half + 1);
}

void backoff_reset(struct backoff *backoff)
{
	backoff->ms = 0;
}
