/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Makes the text that is served. The broker's text is OpenMetrics 1.0; scrapers that do not request this format get
 * the older format of Prometheus, 0.0.4.
 */

#include <stdbool.h>
#include <stdint.h>

enum exposition_format {
	EXPOSITION_PROMETHEUS,
	EXPOSITION_OPENMETRICS,
	_EXPOSITION_MAX,
};

/* The format that the value of an Accept header prefers. ACCEPT may be NULL. */
enum exposition_format exposition_choose(const char *accept);
const char *exposition_content_type(enum exposition_format format);

/*
 * Returns malloc()ed text in FORMAT: the exporter's own metrics, followed by those in BROKER. BROKER is complete
 * OpenMetrics text; NULL: the broker did not answer. N_FETCHES is how often the exporter has requested it. Returns
 * NULL if memory is out.
 */
char *exposition_new(enum exposition_format format, const char *broker, uint64_t n_fetches);
/* Whether TEXT is complete: it ends with the line "# EOF". */
bool exposition_is_whole(const char *text);
