/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "newfile.h"
#include "output.h"
#include "proto/text.h"
#include "sitehold.h"
#include "sitestate.h"

#define NAME "hold"

static void parse(char *text, struct sitehold *ret)
{
	char *line = strchr(text, '\n'), *blank = strchr(text, ' ');

	if (!line || !blank || blank > line)
		return;
	*line++ = 0;
	*blank++ = 0;
	ret->since = strtoll(text, NULL, 10);
	if (ret->since < 0)
		ret->since = 0;
	if (*blank)
		text_copy(ret->by, sizeof(ret->by), blank);
	line[strcspn(line, "\n")] = 0;
	text_copy(ret->why, sizeof(ret->why), line);
	text_make_printable(ret->by, strlen(ret->by));
	text_make_printable(ret->why, strlen(ret->why));
}

bool sitehold_read(const char *dir, struct sitehold *ret)
{
	char path[PATH_MAX], text[NEWFILE_TEXT_MAX];

	*ret = (struct sitehold){ .by = "?" };
	snprintf(path, sizeof(path), "%s/" NAME, dir);
	if (!newfile_read(dir, NAME, text))
		return access(path, F_OK) == 0;
	parse(text, ret);
	return true;
}

void sitehold_hold(const char *dir, const char *why)
{
	char by[SITELOG_BY_MAX], line[SITEHOLD_WHY_MAX];
	int r;

	if (strlen(why) >= sizeof(line))
		die(EXIT_FAILURE, "the reason has more than %zu bytes", sizeof(line) - 1);
	sitelog_author(by);
	strcpy(line, why);
	text_make_printable(line, strlen(line));
	r = newfile_print(dir, NAME, "%lld %s\n%s\n", (long long)time(NULL), by, line);
	if (r < 0)
		die(EXIT_LATER, "cannot write %s/" NAME ": %s", dir, strerror(-r));
	puts("held: \"site install --unless-held\" changes nothing until \"site release\"");
}

void sitehold_release(const char *dir)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/" NAME, dir);
	if (unlink(path) == 0)
		puts("released: others decide again which version is in force");
	else if (errno == ENOENT)
		puts("nothing was held");
	else
		die(EXIT_LATER, "cannot remove %s: %m", path);
}

/* "by alice@n1 since 2026-11-27 18:00: the reason"; "": the versions are not held. */
static const char *describe(const char *dir, char ret[SITELOG_BY_MAX + SITEHOLD_WHY_MAX + 64])
{
	char time_text[TIME_TEXT_MAX] = "?";
	struct sitehold hold;

	ret[0] = 0;
	if (!sitehold_read(dir, &hold))
		return ret;
	if (hold.since > 0)
		time_to_text(time_text, hold.since);
	/* Without the seconds. */
	sprintf(ret, "by %s since %.16s%s%s", hold.by, time_text, *hold.why ? ": " : "", hold.why);
	return ret;
}

void sitehold_print(const char *dir)
{
	char text[SITELOG_BY_MAX + SITEHOLD_WHY_MAX + 64];

	if (*describe(dir, text))
		printf("held: %s\n", escaped(text));
}

bool sitehold_refuses(const char *dir)
{
	char text[SITELOG_BY_MAX + SITEHOLD_WHY_MAX + 64];

	if (!*describe(dir, text))
		return false;
	complain("the version in force is held %s", text);
	return true;
}

void sitehold_print_json(const char *dir, struct jsonout *json)
{
	struct sitehold hold;

	if (!sitehold_read(dir, &hold)) {
		jsonout_null(json, "held");
		return;
	}
	jsonout_open(json, "held", '{');
	jsonout_string(json, "by", hold.by);
	jsonout_signed(json, "since", hold.since);
	jsonout_string(json, "why", hold.why);
	jsonout_close(json, '}');
}
