/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The metrics as OpenMetrics text, one page at a time, because the metrics of all rules of a large policy
 * would take much memory.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/object/core.h"
#include "util/metrics.h"

#define METRICS_ITEM_MAX 4096 /* at most this is written by one call of a print function */
#define METRICS_PAGE_MAX 15872 /* size of a page: fits into a packet with the rest of the reply */

/* The position at which a page begins; all zero: the first page. */
struct metrics_place {
	size_t section, index;
};

/*
 * Fills TEXT, of more than METRICS_ITEM_MAX bytes, with the page that begins at *PLACE, and moves *PLACE to
 * the next page. Returns true if there is a next page. If the policy was replaced between two pages, rules can be
 * missing or appear twice.
 */
bool metrics_page(const struct core *core, struct metrics_text *text, struct metrics_place *place);
