/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/host/host.h"

#define RESULTS_MAX 256
#define TABLES_MAX 8
#define PLOTS_MAX 8
#define SERIES_MAX 4

static struct result {
	char name[96], detail[96];
	const char *unit;
	double value, max;
	bool has_target;
} results[RESULTS_MAX];

static size_t n_results;

static struct table tables[TABLES_MAX];
static size_t n_tables;

static struct plot {
	const char *title, *x, *y, *note;
	struct series series[SERIES_MAX];
	size_t n_series;
} plots[PLOTS_MAX];

static size_t n_plots;

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double q)
{
	double at = q * (double)(n - 1);
	size_t i = (size_t)at;

	return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

double median_of(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return quantile(values, n, 0.5);
}

struct spread spread_of(const struct figure *figure)
{
	struct figure sorted = *figure;

	if (sorted.n == 0)
		die("nothing was measured");
	qsort(sorted.rounds, sorted.n, sizeof(sorted.rounds[0]), compare);
	return (struct spread){
		.low = quantile(sorted.rounds, sorted.n, 0.25),
		.median = quantile(sorted.rounds, sorted.n, 0.5),
		.high = quantile(sorted.rounds, sorted.n, 0.75),
	};
}

struct spread ratio_of(const struct figure *figure, const struct figure *base)
{
	struct figure ratio = { .n = figure->n };

	for (size_t i = 0; i < ratio.n; i++)
		ratio.rounds[i] = figure->rounds[i] / base->rounds[i];
	return spread_of(&ratio);
}

static struct result *add(const char *name, const char *unit, double value)
{
	struct result *result = &results[n_results++];

	if (n_results > RESULTS_MAX)
		die("too many results");
	snprintf(result->name, sizeof(result->name), "%s", name);
	result->unit = unit;
	result->value = value;
	return result;
}

void result_add(const char *name, const char *unit, double value)
{
	add(name, unit, value);
}

void result_add_target(const char *name, const char *unit, double value, double max,
		       const char *detail)
{
	struct result *result = add(name, unit, value);

	result->has_target = true;
	result->max = max;
	snprintf(result->detail, sizeof(result->detail), "%s", detail ?: "");
}

static bool is_met(const struct result *result)
{
	return result->value <= result->max;
}

void result_print_targets(void)
{
	printf("%-62s %10s %10s\n", "", "measured", "wanted");
	for (size_t i = 0; i < n_results; i++) {
		const struct result *r = &results[i];

		if (r->has_target)
			printf("%-62s %10.2f %10.2f  %-6s %s\n", r->name, r->value, r->max,
			       is_met(r) ? "met" : "missed", r->detail);
	}
}

void result_add_table(const struct table *table)
{
	if (n_tables == TABLES_MAX)
		die("too many tables");
	tables[n_tables++] = *table;
}

void result_add_plot(const char *title, const char *x, const char *y, const char *note,
		     const struct series *series, size_t n_series)
{
	struct plot *plot = &plots[n_plots++];

	if (n_plots > PLOTS_MAX || n_series > SERIES_MAX)
		die("too many plots");
	*plot = (struct plot){ .title = title, .x = x, .y = y, .note = note, .n_series = n_series };
	memcpy(plot->series, series, n_series * sizeof(*series));
}

/* The strings need no escapes. */
void result_write(const char *path)
{
	FILE *f = fopen(path, "we");
	struct utsname host;
	time_t t = time(NULL);
	char date[32];

	if (!f)
		die("%s: %m", path);
	uname(&host);
	strftime(date, sizeof(date), "%FT%TZ", gmtime(&t));
	fprintf(f,
		"{\n\"format\": \"rdmabroker-bench-host 1\",\n"
		"\"title\": \"The broker above a fake fabric\",\n"
		"\"environment\": { \"rdmabroker\": \"%s\", \"kernel\": \"%s\", \"cpus\": %ld, "
		"\"date\": \"%s\" },\n\"results\": [",
		rdmabroker_get_version(), host.release, sysconf(_SC_NPROCESSORS_ONLN), date);
	for (size_t i = 0; i < n_results; i++) {
		const struct result *r = &results[i];

		fprintf(f, "%s\n  { \"name\": \"%s\", \"unit\": \"%s\", \"value\": %.10g",
			i ? "," : "", r->name, r->unit, r->value);
		if (r->has_target)
			fprintf(f, ", \"wanted\": %.10g, \"met\": %s", r->max,
				is_met(r) ? "true" : "false");
		fprintf(f, " }");
	}
	fprintf(f, "\n],\n\"tables\": [");
	for (size_t i = 0; i < n_tables; i++) {
		fprintf(f, "%s\n  ", i ? "," : "");
		table_write(&tables[i], f);
	}
	fprintf(f, "\n],\n\"plots\": [");
	for (size_t i = 0; i < n_plots; i++) {
		const struct plot *p = &plots[i];

		fprintf(f,
			"%s\n  { \"title\": \"%s\", \"x\": \"%s\", \"y\": \"%s\", \"logx\": true,\n"
			"    \"note\": \"%s\",\n    \"series\": [",
			i ? "," : "", p->title, p->x, p->y, p->note);
		for (size_t k = 0; k < p->n_series; k++) {
			const struct series *s = &p->series[k];

			fprintf(f, "%s\n      { \"name\": \"%s\", \"points\": [", k ? "," : "",
				s->name);
			for (size_t j = 0; j < s->n; j++)
				fprintf(f, "%s[%.10g, %.10g]", j ? ", " : "", s->points[j][0],
					s->points[j][1]);
			fprintf(f, "] }");
		}
		fprintf(f, " ] }");
	}
	fprintf(f, "\n]\n}\n");
	if (fclose(f) != 0)
		die("%s: %m", path);
}
