/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "author.h"
#include "proto/text.h"
#include "sitefile.h"
#include "sitelog.h"
#include "table.h"

/* A line is "SECONDS<tab>ACTION<tab>VERSION<tab>PREVIOUS<tab>BY"; "-": no version. The newest is the last. */

#define KEEP 8

int sitelog_add(const char *dir, const char *action, const char *version, const char *previous,
		const char *by)
{
	char old[SITEFILE_MAX], author[AUTHOR_MAX], *new = NULL;
	char *from = old;
	size_t n = 0;
	int r;

	sitefile_read(dir, SITELOG_FILE, old);
	for (const char *c = old; *c; c++)
		n += *c == '\n';
	for (; n >= KEEP; n--)
		from = strchr(from, '\n') + 1;
	if (by)
		text_copy(author, sizeof(author), by);
	else
		author_text(author);
	text_make_printable(author, strlen(author));
	if (asprintf(&new, "%s%" PRId64 "\t%s\t%s\t%s\t%s\n", from, (int64_t)time(NULL), action,
		     version ?: "-", previous ?: "-", author) < 0)
		return -ENOMEM;
	r = sitefile_write(dir, SITELOG_FILE, new);
	free(new);
	return r;
}

struct row {
	char at[32];
	int64_t time;
	const char *when, *action, *version, *previous, *by;
};

static const char *next_field(char **rest)
{
	const char *field = strsep(rest, "\t");

	return field && strcmp(field, "-") != 0 ? field : NULL;
}

static void parse(char *line, struct row *ret)
{
	const char *seconds = next_field(&line);
	time_t time = seconds ? (time_t)strtoll(seconds, NULL, 10) : 0;
	struct tm tm;

	*ret = (struct row){ .time = time };
	if (localtime_r(&time, &tm))
		strftime(ret->at, sizeof(ret->at), "%F %T", &tm);
	ret->when = ret->at;
	ret->action = next_field(&line);
	ret->version = next_field(&line);
	ret->previous = next_field(&line);
	ret->by = next_field(&line);
}

int sitelog_print(const char *dir, bool as_json)
{
	static const struct column columns[] = {
		{ "TIME", NULL, COLUMN_OF(struct row, when) },
		{ NULL, "time", COLUMN_OF(struct row, time) },
		{ "ACTION", "action", COLUMN_OF(struct row, action) },
		{ "VERSION", "version", COLUMN_OF(struct row, version) },
		{ "BEFORE", "previous", COLUMN_OF(struct row, previous) },
		{ "BY", "by", COLUMN_OF(struct row, by) },
		{ NULL },
	};
	char text[SITEFILE_MAX], *lines[KEEP], *rest = NULL;
	struct jsonout json = { .file = stdout };
	struct table table;
	size_t n = 0;

	sitefile_read(dir, SITELOG_FILE, text);
	for (char *line = strtok_r(text, "\n", &rest); line && n < KEEP;
	     line = strtok_r(NULL, "\n", &rest))
		lines[n++] = line;
	if (as_json) {
		jsonout_open(&json, NULL, '{');
		jsonout_open(&json, "changes", '[');
		table = (struct table){ .columns = columns, .json = &json };
	} else {
		table_begin(&table, columns);
	}
	for (struct row row; n > 0;) {
		parse(lines[--n], &row);
		table_add(&table, &row);
	}
	if (!as_json)
		return table_end(&table, stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
	jsonout_close(&json, ']');
	jsonout_close(&json, '}');
	putchar('\n');
	return EXIT_SUCCESS;
}
