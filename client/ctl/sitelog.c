/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "newfile.h"
#include "proto/text.h"
#include "sitelog.h"
#include "table.h"

/* A line is "SECONDS<tab>ACTION<tab>VERSION<tab>PREVIOUS<tab>BY"; "-": no version. The newest is the last. */

#define KEEP 8

void sitelog_author(char ret[SITELOG_BY_MAX])
{
	const char *sudo = geteuid() == 0 ? getenv("SUDO_USER") : NULL;
	const struct passwd *entry = getpwuid(getuid());
	char host[65] = "", uid[32];
	const char *user;

	gethostname(host, sizeof(host) - 1);
	snprintf(uid, sizeof(uid), "%u", getuid());
	user = entry ? entry->pw_name : uid;
	if (sudo && *sudo && strcmp(sudo, user) != 0)
		snprintf(ret, SITELOG_BY_MAX, "%.128s@%s (as %.128s)", sudo, host, user);
	else
		snprintf(ret, SITELOG_BY_MAX, "%.128s@%s", user, host);
	text_make_printable(ret, strlen(ret));
}

int sitelog_add(const char *dir, const char *action, const char *version, const char *previous,
		const char *by)
{
	char old[NEWFILE_TEXT_MAX], author[SITELOG_BY_MAX], *from = old;
	size_t n = 0;

	newfile_read(dir, SITELOG_FILE, old);
	for (const char *c = old; *c; c++)
		n += *c == '\n';
	for (; n >= KEEP; n--)
		from = strchr(from, '\n') + 1;
	if (by)
		text_copy(author, sizeof(author), by);
	else
		sitelog_author(author);
	text_make_printable(author, strlen(author));
	return newfile_print(dir, SITELOG_FILE, "%s%" PRId64 "\t%s\t%s\t%s\t%s\n", from,
			     (int64_t)time(NULL), action, version ?: "-", previous ?: "-", author);
}

struct row {
	char at[TIME_TEXT_MAX];
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

	*ret = (struct row){ .time = seconds ? strtoll(seconds, NULL, 10) : 0 };
	ret->when = time_to_text(ret->at, ret->time);
	ret->action = next_field(&line);
	ret->version = next_field(&line);
	ret->previous = next_field(&line);
	ret->by = next_field(&line);
}

void sitelog_print(const char *dir, bool as_json)
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
	char text[NEWFILE_TEXT_MAX], *lines[KEEP], *rest = NULL;
	struct jsonout json;
	struct table table;
	size_t n = 0;

	newfile_read(dir, SITELOG_FILE, text);
	for (char *line = strtok_r(text, "\n", &rest); line && n < KEEP;
	     line = strtok_r(NULL, "\n", &rest))
		lines[n++] = line;
	if (as_json)
		json_begin(&json);
	table_begin(&table, columns, as_json ? &json : NULL, "changes");
	for (struct row row; n > 0;) {
		parse(lines[--n], &row);
		table_add(&table, &row);
	}
	table_end(&table, stdout);
	if (as_json)
		json_end(&json);
}
