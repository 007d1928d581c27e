/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "inifile.h"
#include "log.h"

struct reading {
	const char *path, *section;
	inifile_set *set;
	void *userdata;
	FILE *file;
	unsigned line;
	bool has_failed;
};

/* Called by libinih for each key. Failures are recorded in READING; 1 means success to libinih. */
static int handle(void *userdata, const char *section, const char *name, const char *value)
{
	struct reading *reading = userdata;
	char where[PATH_MAX + 16];

	snprintf(where, sizeof(where), "%s:%u", reading->path, reading->line);
	if (strcmp(section, reading->section) != 0) {
		log_line(LOG_ERR, "%s: keys must be in the section [%s], not in [%s]", where,
			 reading->section, section);
		reading->has_failed = true;
	} else if (!reading->set(reading->userdata, where, name, value)) {
		reading->has_failed = true;
	}
	return 1;
}

/*
 * Called by libinih instead of fgets(). Removes leading blanks, with which libinih would take a line as the
 * continuation of a value. Refuses a line that is too long, whose rest libinih would take as another line.
 */
static char *read_line(char *buffer, int size, void *userdata)
{
	struct reading *reading = userdata;
	size_t len;

	reading->line++;
	if (!fgets(buffer, size, reading->file))
		return NULL;
	len = strlen(buffer);
	if (len + 1 == (size_t)size && buffer[len - 1] != '\n') {
		log_line(LOG_ERR, "%s:%u: the line is too long", reading->path, reading->line);
		reading->has_failed = true;
		for (int c = 0; c != EOF && c != '\n';)
			c = getc(reading->file);
		strcpy(buffer, "\n");
	}
	len = strspn(buffer, " \t");
	memmove(buffer, buffer + len, strlen(buffer + len) + 1);
	return buffer;
}

int inifile_read(const char *path, bool must_exist, const char *section, inifile_set *set,
		 void *userdata)
{
	struct reading reading = {
		.path = path, .section = section, .set = set, .userdata = userdata
	};
	int r;

	reading.file = fopen(path, "re");
	if (!reading.file) {
		r = -errno;
		if (r == -ENOENT && !must_exist)
			return 0;
		log_line(LOG_ERR, "Cannot read %s: %s", path, strerror(-r));
		return r;
	}
	r = ini_parse_stream(read_line, &reading, handle, &reading);
	/* fopen() opens a directory too, but reading fails. */
	if (ferror(reading.file)) {
		log_line(LOG_ERR, "Cannot read %s: it is a directory, or reading failed", path);
		r = -EIO;
	} else if (r > 0) {
		log_line(LOG_ERR, "%s:%d: the line must be Key=Value or [%s]", path, r, section);
	}
	fclose(reading.file);
	return r != 0 || reading.has_failed ? -EBADMSG : 0;
}
