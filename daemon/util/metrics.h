/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Histograms of durations, and text in the format of OpenMetrics 1.0. To observe allocates nothing: it is
 * done where connections are made. To print is for whoever asks, now and then.
 */

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_N_BOUNDS 14 /* 100 us to 60 s */

struct histogram {
	uint64_t counts[HISTOGRAM_N_BOUNDS + 1]; /* by bucket; the last is for what is longer */
	uint64_t sum_ns;
};

void histogram_observe(struct histogram *histogram, uint64_t ns);

/* Text that is cut where its space ends: whoever gives the space knows how much is to come. */
struct metrics_text {
	char *buf;
	size_t size, len;
};

/* TYPE as "counter"; UNIT may be NULL. Then come the family's samples. */
void metrics_family(struct metrics_text *text, const char *name, const char *type, const char *unit,
		    const char *help);
void metrics_printf(struct metrics_text *text, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* NAME is the family's; LABELS as `phase="connect"`, never empty. */
void metrics_histogram(struct metrics_text *text, const char *name, const char *labels,
		       const struct histogram *histogram);
/* VALUE as it stands between a label's quotes. Returns RET, which has room for twice its length. */
const char *metrics_escape(char *ret, size_t size, const char *value);
