/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "util/metrics.h"

#define US 1000ULL
#define MS 1000000ULL
#define S 1000000000ULL

/* TEXT: the bound in seconds, in the form that OpenMetrics requires. */
static const struct {
	uint64_t ns;
	const char *text;
} bounds[HISTOGRAM_N_BOUNDS] = {
	{ 100 * US, "0.0001" }, { 250 * US, "0.00025" }, { 500 * US, "0.0005" },
	{ MS, "0.001" },        { 2500 * US, "0.0025" }, { 5 * MS, "0.005" },
	{ 10 * MS, "0.01" },    { 25 * MS, "0.025" },    { 50 * MS, "0.05" },
	{ 100 * MS, "0.1" },    { 500 * MS, "0.5" },     { S, "1.0" },
	{ 10 * S, "10.0" },     { 60 * S, "60.0" },
};

void histogram_observe(struct histogram *histogram, uint64_t ns)
{
	size_t i = 0;

	while (i < HISTOGRAM_N_BOUNDS && ns > bounds[i].ns)
		i++;
	histogram->counts[i]++;
	histogram->sum_ns += ns;
}

void metrics_printf(struct metrics_text *text, const char *fmt, ...)
{
	size_t room = text->size - text->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text->buf + text->len, room, fmt, ap);
	va_end(ap);
	if (n > 0 && (size_t)n < room)
		text->len += (size_t)n;
	text->buf[text->len] = 0;
}

void metrics_family(struct metrics_text *text, const char *name, const char *type, const char *unit,
		    const char *help)
{
	metrics_printf(text, "# TYPE %s %s\n", name, type);
	if (unit)
		metrics_printf(text, "# UNIT %s %s\n", name, unit);
	metrics_printf(text, "# HELP %s %s\n", name, help);
}

void metrics_histogram(struct metrics_text *text, const char *name, const char *labels,
		       const struct histogram *histogram)
{
	uint64_t n = 0;

	for (size_t i = 0; i < HISTOGRAM_N_BOUNDS; i++) {
		n += histogram->counts[i];
		metrics_printf(text, "%s_bucket{%s,le=\"%s\"} %" PRIu64 "\n", name, labels,
			       bounds[i].text, n);
	}
	n += histogram->counts[HISTOGRAM_N_BOUNDS];
	metrics_printf(text, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, n);
	metrics_printf(text, "%s_count{%s} %" PRIu64 "\n", name, labels, n);
	metrics_printf(text, "%s_sum{%s} %" PRIu64 ".%09" PRIu64 "\n", name, labels,
		       (uint64_t)(histogram->sum_ns / S), (uint64_t)(histogram->sum_ns % S));
}

const char *metrics_escape(char *ret, size_t size, const char *value)
{
	size_t n = 0;

	for (; *value && n + 3 <= size; value++) {
		if (*value == '\\' || *value == '"' || *value == '\n')
			ret[n++] = '\\';
		ret[n++] = *value == '\n' ? 'n' : *value;
	}
	ret[n] = 0;
	return ret;
}
