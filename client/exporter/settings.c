/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "complain.h"
#include "settings.h"

#define SECTION "Exporter"

struct reading {
	struct settings *settings;
	const char *path;
	FILE *file;
	unsigned line;
	bool has_failed;
};

void settings_init(struct settings *settings)
{
	*settings = (struct settings){};
	settings_add_listen(settings, "", SETTINGS_LISTEN);
}

bool settings_add_listen(struct settings *settings, const char *where, const char *text)
{
	if (settings->n_listen == SOCKETS_MAX) {
		complain(LOG_ERR, "%s: too many addresses to listen on: at most %d are allowed",
			 where, SOCKETS_MAX);
		return false;
	}
	if (!sockets_parse(&settings->listen[settings->n_listen], text)) {
		complain(LOG_ERR,
			 "%s: invalid address \"%s\" to listen on: it must be " SOCKETS_FORMS,
			 where, text);
		return false;
	}
	settings->n_listen++;
	return true;
}

bool settings_set_socket(struct settings *settings, const char *where, const char *path)
{
	if (path[0] != '/' || strlen(path) >= sizeof(settings->socket)) {
		complain(LOG_ERR,
			 "%s: the broker's socket must be an absolute path of at most %zu bytes",
			 where, sizeof(settings->socket) - 1);
		return false;
	}
	strcpy(settings->socket, path);
	return true;
}

static bool set_listen(struct settings *settings, const char *where, const char *value)
{
	char text[1024], *rest = text, *word;

	settings->n_listen = 0;
	snprintf(text, sizeof(text), "%s", value);
	while ((word = strsep(&rest, " \t")))
		if (*word && !settings_add_listen(settings, where, word))
			return false;
	if (settings->n_listen == 0)
		complain(LOG_ERR, "%s: Listen= has no address: it must be " SOCKETS_FORMS, where);
	return settings->n_listen > 0;
}

/* Called by libinih for each key. Failures are recorded in READING; 1 means success to libinih. */
static int handle(void *userdata, const char *section, const char *name, const char *value)
{
	struct reading *reading = userdata;
	char where[256];
	bool done;

	snprintf(where, sizeof(where), "%s:%u", reading->path, reading->line);
	if (strcmp(section, SECTION) != 0) {
		complain(LOG_ERR, "%s: keys must be in the section [" SECTION "], not in [%s]",
			 where, section);
		done = false;
	} else if (strcmp(name, "Listen") == 0) {
		done = set_listen(reading->settings, where, value);
	} else if (strcmp(name, "Socket") == 0) {
		done = settings_set_socket(reading->settings, where, value);
	} else {
		complain(LOG_ERR, "%s: unknown key \"%s\": it must be Listen or Socket", where,
			 name);
		done = false;
	}
	if (!done)
		reading->has_failed = true;
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
		complain(LOG_ERR, "%s:%u: the line is too long", reading->path, reading->line);
		reading->has_failed = true;
		for (int c = 0; c != EOF && c != '\n';)
			c = getc(reading->file);
		strcpy(buffer, "\n");
	}
	len = strspn(buffer, " \t");
	memmove(buffer, buffer + len, strlen(buffer + len) + 1);
	return buffer;
}

int settings_read(struct settings *settings, const char *path, bool must_exist)
{
	struct reading reading = { .settings = settings, .path = path };
	int r;

	reading.file = fopen(path, "re");
	if (!reading.file) {
		r = -errno;
		if (r == -ENOENT && !must_exist)
			return 0;
		complain(LOG_ERR, "Cannot read %s: %s", path, strerror(-r));
		return r;
	}
	r = ini_parse_stream(read_line, &reading, handle, &reading);
	/* fopen() opens a directory too, but reading fails. */
	if (ferror(reading.file)) {
		complain(LOG_ERR, "Cannot read %s: it is a directory, or reading failed", path);
		r = -EIO;
	} else if (r > 0) {
		complain(LOG_ERR, "%s:%d: the line must be Key=Value or [" SECTION "]", path, r);
	}
	fclose(reading.file);
	return r != 0 || reading.has_failed ? -EBADMSG : 0;
}
