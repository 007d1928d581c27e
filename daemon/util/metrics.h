/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Histograms of durations, and text in the format of OpenMetrics 1.0. histogram_observe() does not allocate
 * memory, because it is called while connections are made. The text is made only on request.
 */

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_N_BOUNDS 14 /* bounds of buckets, from 100 us to 60 s */

struct histogram {
	/* one for each bound, and a last one for longer durations */
	uint64_t counts[HISTOGRAM_N_BOUNDS + 1];
	uint64_t sum_ns;
};

void histogram_observe(struct histogram *histogram, uint64_t ns);

/* A text buffer. Lines that do not fit are left out, so the caller must provide enough space. */
struct metrics_text {
	char *buf;
	size_t size, len;
};

/*
 * Writes the header of a metric family. TYPE is for example "counter"; UNIT may be NULL. The family's samples
 * must follow.
 */
void metrics_family(struct metrics_text *text, const char *name, const char *type, const char *unit,
		    const char *help);
void metrics_printf(struct metrics_text *text, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Writes a histogram. NAME is the family's name; LABELS are for example `phase="connect"`, and never empty. */
void metrics_histogram(struct metrics_text *text, const char *name, const char *labels,
		       const struct histogram *histogram);
/* Escapes VALUE for the quotes of a label. Returns RET; a buffer of twice VALUE's length plus 1 holds all of it. */
const char *metrics_escape(char *ret, size_t size, const char *value);
