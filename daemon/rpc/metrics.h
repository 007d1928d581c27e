/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The metrics as OpenMetrics text, one page at a time, because the text about all rules of a large policy
 * would take much memory.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"
#include "util/metrics.h"

#define METRICS_ITEM_MAX 4096 /* the longest: all decisions, or a rule whose file has a long name */
#define METRICS_PAGE_MAX 15872 /* fits into a packet with the rest of the reply */

/* Where a page begins; zeroes are the start. */
struct metrics_place {
	size_t section, index;
};

/*
 * Fills TEXT, of more than METRICS_ITEM_MAX bytes, with the page that begins at *PLACE, and moves *PLACE to
 * the next page. Returns whether there is one. Pages belong together only while the core has the same policy.
 */
bool metrics_page(const struct core *core, struct metrics_text *text, struct metrics_place *place);
