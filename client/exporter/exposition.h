/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Makes the text that is served. The broker's text is OpenMetrics 1.0. Scrapers that do not request this format get
 * the older format of Prometheus, 0.0.4.
 */

#include <stdbool.h>
#include <stdint.h>

#include "site.h"

enum exposition_format {
	EXPOSITION_PROMETHEUS,
	EXPOSITION_OPENMETRICS,
	_EXPOSITION_MAX,
};

/* Returns the format that ACCEPT, the value of an Accept header, prefers. ACCEPT can be NULL. */
enum exposition_format exposition_choose(const char *accept);
const char *exposition_content_type(enum exposition_format format);

/*
 * Returns the exporter's own metrics, those of SITE, and then those in BROKER, as malloc()ed text in FORMAT; NULL: out of memory.
 * BROKER: complete OpenMetrics text; NULL: the broker did not answer. N_FETCHES: how often the exporter has requested
 * it.
 */
char *exposition_new(enum exposition_format format, const char *broker, uint64_t n_fetches,
		     const struct site_paths *site);
/* True if TEXT ends with the line "# EOF". */
bool exposition_is_whole(const char *text);
