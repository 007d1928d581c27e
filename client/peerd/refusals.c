/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log.h"
#include "proto/clock.h"
#include "refusals.h"

void refusals_print(struct refusals *refusals, const char *what, const char *address,
		    const char *why)
{
	int64_t now = now_ms();

	if (refusals->begin_ms == 0 || now >= refusals->begin_ms + REFUSALS_MS) {
		if (refusals->n_left_out > 0)
			log_line(LOG_WARNING, "%u more messages were refused.",
				 refusals->n_left_out);
		*refusals = (struct refusals){ .begin_ms = now };
	}
	if (refusals->n == REFUSALS_MAX) {
		refusals->n_left_out++;
		return;
	}
	refusals->n++;
	log_line(LOG_WARNING, "Refused the %s of %s: %s.", what, address, why);
}
