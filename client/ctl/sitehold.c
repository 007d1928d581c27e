/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/text.h"
#include "sitefile.h"
#include "sitehold.h"

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

bool sitehold_read(const char *site, struct sitehold *ret)
{
	char path[PATH_MAX], text[SITEFILE_MAX];

	*ret = (struct sitehold){ .by = "?" };
	snprintf(path, sizeof(path), "%s/" SITEHOLD_FILE, site);
	if (!sitefile_read(site, SITEHOLD_FILE, text))
		return access(path, F_OK) == 0;
	parse(text, ret);
	return true;
}

int sitehold_write(const char *site, const struct sitehold *hold)
{
	char text[SITEFILE_MAX];

	snprintf(text, sizeof(text), "%lld %s\n%s\n", (long long)hold->since, hold->by, hold->why);
	return sitefile_write(site, SITEHOLD_FILE, text);
}

int sitehold_remove(const char *site)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/" SITEHOLD_FILE, site);
	if (unlink(path) == 0)
		return 1;
	return errno == ENOENT ? 0 : -errno;
}
