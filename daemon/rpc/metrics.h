/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What is counted, as OpenMetrics text, a page at a time: a policy can have more rules than anybody wants
 * to have the text of in memory. It is for `rdmabrokerctl metrics` and for MetricsListen=.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"
#include "util/metrics.h"

#define METRICS_ITEM_MAX 4096 /* the longest: all decisions, or a rule whose file has a long name */
#define METRICS_PAGE_MAX 15872 /* fits into a packet with what else is in it */

/* Where a page begins; zeroes are the start. */
struct metrics_place {
	size_t section, index;
};

/*
 * Fill TEXT, of more than METRICS_ITEM_MAX bytes, with what stands at *PLACE, which moves on. Returns whether
 * more is to come. Pages belong together only while the core has the same policy.
 */
bool metrics_page(const struct core *core, struct metrics_text *text, struct metrics_place *place);
