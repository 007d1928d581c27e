/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Histograms of durations, and text in the format of OpenMetrics 1.0. histogram_observe() allocates no
 * memory, because it is called while connections are made.
 */

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_N_BOUNDS 14 /* from 100 us to 60 s */

struct histogram {
	/* the last element counts durations above all bounds */
	uint64_t counts[HISTOGRAM_N_BOUNDS + 1];
	uint64_t sum_ns;
};

void histogram_observe(struct histogram *histogram, uint64_t ns);

/* Lines that do not fit into BUF are left out. */
struct metrics_text {
	char *buf;
	size_t size, len;
};

/*
 * Writes the header of a metric family, which its samples must follow. TYPE: for example "counter". UNIT can
 * be NULL.
 */
void metrics_family(struct metrics_text *text, const char *name, const char *type, const char *unit,
		    const char *help);
void metrics_printf(struct metrics_text *text, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* NAME: the family's name. LABELS: for example `phase="connect"`, not empty. */
void metrics_histogram(struct metrics_text *text, const char *name, const char *labels,
		       const struct histogram *histogram);
/* Escapes VALUE for a label. Returns RET. 2 * strlen(VALUE) + 1 bytes hold all of it. */
const char *metrics_escape(char *ret, size_t size, const char *value);
