/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sitehold.h"
#include "output.h"
#include "proto/text.h"
#include "siteheld.h"

/* An admin of this host keeps the version in force, whatever else is to be installed. */

int siteheld_hold(const char *dir, const char *why)
{
	struct sitehold hold = { .since = (int64_t)time(NULL) };
	int r;

	if (strlen(why) >= sizeof(hold.why)) {
		complain("the reason has more than %zu bytes", sizeof(hold.why) - 1);
		return EXIT_FAILURE;
	}
	author_text(hold.by);
	text_copy(hold.why, sizeof(hold.why), why);
	text_make_printable(hold.why, strlen(hold.why));
	r = sitehold_write(dir, &hold);
	if (r < 0) {
		complain("cannot write %s/" SITEHOLD_FILE ": %s", dir, strerror(-r));
		return EXIT_LATER;
	}
	puts("held: \"site install --unless-held\" changes nothing until \"site release\"");
	return EXIT_SUCCESS;
}

int siteheld_release(const char *dir)
{
	int r = sitehold_remove(dir);

	if (r < 0) {
		complain("cannot remove %s/" SITEHOLD_FILE ": %s", dir, strerror(-r));
		return EXIT_LATER;
	}
	puts(r > 0 ? "released: others decide again which version is in force" :
		     "nothing was held");
	return EXIT_SUCCESS;
}

/* "by alice@n1 since 2026-11-27 18:00: the reason". */
static void describe(const struct sitehold *hold, char *ret, size_t size)
{
	time_t since = (time_t)hold->since;
	char time_text[32] = "?";
	struct tm tm;

	if (since > 0 && localtime_r(&since, &tm))
		strftime(time_text, sizeof(time_text), "%F %R", &tm);
	snprintf(ret, size, "by %s since %s%s%s", hold->by, time_text, *hold->why ? ": " : "",
		 hold->why);
}

void siteheld_print(const char *dir)
{
	char text[AUTHOR_MAX + SITEHOLD_WHY_MAX + 64];
	struct sitehold hold;

	if (!sitehold_read(dir, &hold))
		return;
	describe(&hold, text, sizeof(text));
	printf("held: %s\n", escaped(text));
}

void siteheld_print_json(const char *dir, struct jsonout *json)
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

bool siteheld_refuses(const char *dir, int64_t *ret_since)
{
	char text[AUTHOR_MAX + SITEHOLD_WHY_MAX + 64];
	struct sitehold hold;

	if (!sitehold_read(dir, &hold))
		return false;
	describe(&hold, text, sizeof(text));
	complain("the version in force is held %s", text);
	*ret_since = hold.since;
	return true;
}
