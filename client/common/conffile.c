/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conffile.h"
#include "log.h"
#include "proto/text.h"

#define SIZE_LIMIT (1024 * 1024) /* bytes of a file */

static void complain(void *path, const struct text_line *line, size_t column, const char *message)
{
	log_line(LOG_ERR, "%s:%u:%zu: %s", (const char *)path, line->number, column, message);
}

int conffile_read(const char *path, bool must_exist, const struct inifile_key *keys, void *settings)
{
	const struct inifile inifile = {
		.keys = keys, .settings = settings, .complain = complain, .userdata = (void *)path
	};
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	int r = file ? 0 : -errno;

	inifile_set_defaults(keys, settings);
	if (r == -ENOENT && !must_exist)
		return 0;
	if (r == 0 && !(text = malloc(SIZE_LIMIT + 1)))
		r = -ENOMEM;
	if (r == 0) {
		size = fread(text, 1, SIZE_LIMIT + 1, file);
		r = ferror(file) ? -errno : size > SIZE_LIMIT ? -EFBIG : 0;
	}
	if (r == 0)
		r = inifile_parse(&inifile, text, size);
	if (r < 0 && r != -EBADMSG)
		log_line(LOG_ERR, "Cannot read %s: %s", path, strerror(-r));
	free(text);
	if (file)
		fclose(file);
	return r;
}

bool conffile_override(const struct inifile_key *keys, const char *name, const char *option,
		       const char *value, void *settings)
{
	while (strcmp(keys->name, name) != 0)
		keys++;
	if (!value || inifile_set(keys, value, settings) == 0)
		return true;
	log_line(LOG_ERR, "--%s takes %s", option, keys->takes);
	return false;
}
