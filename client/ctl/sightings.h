/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Who has used RDMA without the broker while the nodes were open, for the verb nodes. */

#include <stdbool.h>
#include <stdint.h>

#include "client/admin.h"

#define DAY_MS (24 * 3600 * UINT64_C(1000))
#define DOUBT_MAX 256

/* Removes those that were last seen before SINCE_MS. The last one comes first. */
void sightings_select(struct rdmabroker_sightings *sightings, uint64_t since_ms);
/*
 * Whether programs can break if the nodes are closed at NOW_MS: why, in RET. False: for a day, nobody was seen. SIGHTINGS are
 * those of the last day.
 */
bool sightings_doubt(const struct rdmabroker_sightings *sightings, uint64_t now_ms,
		     char ret[DOUBT_MAX]);
