/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Histograms of durations, and text in the format of OpenMetrics 1.0. histogram_observe() allocates nothing, because
 * it is called on the path that makes connections. The text is only made on request, now and then.
 */

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_N_BOUNDS 14 /* 100 us to 60 s */

struct histogram {
	uint64_t counts[HISTOGRAM_N_BOUNDS + 1]; /* by bucket; the last counts longer durations */
	uint64_t sum_ns;
};

void histogram_observe(struct histogram *histogram, uint64_t ns);

/* A text buffer. Lines that do not fit are left out: the caller knows how much text to expect. */
struct metrics_text {
	char *buf;
	size_t size, len;
};

/*
 * Writes a family's header. TYPE is for example "counter"; UNIT may be NULL. The samples of the family must follow.
 */
void metrics_family(struct metrics_text *text, const char *name, const char *type, const char *unit,
		    const char *help);
void metrics_printf(struct metrics_text *text, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* NAME is the family's name; LABELS are for example `phase="connect"`, and never empty. */
void metrics_histogram(struct metrics_text *text, const char *name, const char *labels,
		       const struct histogram *histogram);
/* Escapes VALUE for the quotes of a label. Returns RET; a buffer of twice VALUE's length plus 1 holds all of it. */
const char *metrics_escape(char *ret, size_t size, const char *value);
