/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "output.h"
#include "sightings.h"

#define LATE_MS (600 * UINT64_C(1000)) /* a sample is taken every ten seconds */

static int compare(const void *a, const void *b)
{
	const struct rdmabroker_sighting *x = a, *y = b;

	if (x->last_ms != y->last_ms)
		return x->last_ms > y->last_ms ? -1 : 1;
	return x->first_ms < y->first_ms ? -1 : x->first_ms > y->first_ms;
}

void sightings_select(struct rdmabroker_sightings *sightings, uint64_t since_ms)
{
	size_t n = 0;

	for (size_t i = 0; i < sightings->n; i++)
		if (sightings->list[i].last_ms >= since_ms)
			sightings->list[n++] = sightings->list[i];
	sightings->n = n;
	if (n > 0)
		qsort(sightings->list, n, sizeof(*sightings->list), compare);
}

bool sightings_doubt(const struct rdmabroker_sightings *sightings, uint64_t now_ms,
		     char ret[DOUBT_MAX])
{
	char time[TIME_TEXT_MAX];

	if (sightings->n > 0)
		snprintf(ret, DOUBT_MAX,
			 "programs have used RDMA without the broker within the last day: %zu",
			 sightings->n);
	else if (sightings->sampled_ms == 0)
		snprintf(ret, DOUBT_MAX, "the broker has not looked for programs without it yet");
	else if (sightings->sampled_ms + LATE_MS < now_ms)
		snprintf(ret, DOUBT_MAX,
			 "the broker has not looked for programs without it since %s",
			 time_to_text(time, (int64_t)(sightings->sampled_ms / 1000)));
	else if (sightings->since_ms + DAY_MS > now_ms)
		snprintf(
			ret, DOUBT_MAX,
			"the broker has looked for programs without it only since %s, not for a day",
			time_to_text(time, (int64_t)(sightings->since_ms / 1000)));
	else
		return false;
	return true;
}
