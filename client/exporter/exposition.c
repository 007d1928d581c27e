/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exposition.h"
#include "proto/version.h"

#define END "# EOF\n"

static bool has_prefix(const char *text, size_t len, const char *prefix)
{
	return len >= strlen(prefix) && strncasecmp(text, prefix, strlen(prefix)) == 0;
}

/* Returns the weight of an element of an Accept header: 1 if the element has no "q=". */
static double weight_of(const char *element, size_t len)
{
	const char *end = element + len;

	for (const char *p = element; (p = memchr(p, ';', (size_t)(end - p)));) {
		p += 1 + strspn(p + 1, " \t");
		/* The number ends at the latest where the element does. */
		if (has_prefix(p, (size_t)(end - p), "q="))
			return strtod(p + 2, NULL);
	}
	return 1;
}

enum exposition_format exposition_choose(const char *accept)
{
	double openmetrics = 0, plain = 0;

	for (const char *p = accept ?: ""; *p;) {
		size_t skip = strspn(p, " \t,"), len = strcspn(p + skip, ",");
		const char *element = p + skip;
		double weight = weight_of(element, len);

		if (has_prefix(element, len, "application/openmetrics-text") &&
		    weight > openmetrics)
			openmetrics = weight;
		if (has_prefix(element, len, "text/plain") && weight > plain)
			plain = weight;
		p = element + len;
	}
	return openmetrics > 0 && openmetrics >= plain ? EXPOSITION_OPENMETRICS :
							 EXPOSITION_PROMETHEUS;
}

const char *exposition_content_type(enum exposition_format format)
{
	return format == EXPOSITION_OPENMETRICS ?
		       "application/openmetrics-text; version=1.0.0; charset=utf-8" :
		       "text/plain; version=0.0.4; charset=utf-8";
}

static void print_own(FILE *f, bool is_up, uint64_t n_fetches)
{
	fprintf(f,
		"# TYPE rdmabroker_up gauge\n"
		"# HELP rdmabroker_up 1 if the broker has answered, else 0.\n"
		"rdmabroker_up %d\n"
		"# TYPE rdmabroker_exporter_build info\n"
		"# HELP rdmabroker_exporter_build The version of the exporter.\n"
		"rdmabroker_exporter_build_info{version=\"%s\"} 1\n"
		"# TYPE rdmabroker_exporter_fetches counter\n"
		"# HELP rdmabroker_exporter_fetches Fetches of metrics from the broker.\n"
		"rdmabroker_exporter_fetches_total %" PRIu64 "\n",
		is_up, RDMABROKER_VERSION, n_fetches);
}

/*
 * Converts OpenMetrics to Prometheus' older format. Its TYPE and HELP lines have the name of the samples, with
 * "_total" or "_info", instead of the family's. It has no type "info", so an info becomes a gauge. UNIT and EOF lines
 * are left out.
 */
static void print_as_prometheus(FILE *f, const char *text)
{
	const char *suffix = "";

	for (const char *line = text, *next; *line; line = next) {
		int len = (int)strcspn(line, "\n");
		char name[256], type[32];

		next = line + len + (line[len] == '\n');
		if (strncmp(line, "# ", 2) != 0) {
			fprintf(f, "%.*s\n", len, line);
		} else if (sscanf(line, "# TYPE %255s %31s", name, type) == 2) {
			bool is_info = strcmp(type, "info") == 0;

			suffix = is_info ? "_info" : strcmp(type, "counter") == 0 ? "_total" : "";
			fprintf(f, "# TYPE %s%s %s\n", name, suffix, is_info ? "gauge" : type);
		} else if (sscanf(line, "# HELP %255s", name) == 1) {
			int skip = (int)(strlen("# HELP ") + strlen(name));

			fprintf(f, "# HELP %s%s%.*s\n", name, suffix, len - skip, line + skip);
		}
	}
}

/* Closes F, an open_memstream() of TEXT. Returns *TEXT; NULL: out of memory. */
static char *end_text(FILE *f, char **text)
{
	bool failed = ferror(f);

	if (fclose(f) == 0 && !failed)
		return *text;
	free(*text);
	return NULL;
}

char *exposition_new(enum exposition_format format, const char *broker, uint64_t n_fetches,
		     const struct site_paths *site)
{
	char *openmetrics = NULL, *prometheus = NULL;
	size_t size;
	FILE *f = open_memstream(&openmetrics, &size);

	if (!f)
		return NULL;
	print_own(f, broker, n_fetches);
	site_print(f, site);
	fputs(broker ?: END, f);
	openmetrics = end_text(f, &openmetrics);
	if (format == EXPOSITION_OPENMETRICS || !openmetrics)
		return openmetrics;
	f = open_memstream(&prometheus, &size);
	if (f) {
		print_as_prometheus(f, openmetrics);
		prometheus = end_text(f, &prometheus);
	}
	free(openmetrics);
	return prometheus;
}

bool exposition_is_whole(const char *text)
{
	size_t len = strlen(text), n = strlen(END);

	return len >= n && strcmp(text + len - n, END) == 0 &&
	       (len == n || text[len - n - 1] == '\n');
}
