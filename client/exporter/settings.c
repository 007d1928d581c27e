/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "common/inifile.h"
#include "common/log.h"
#include "settings.h"

void settings_init(struct settings *settings)
{
	*settings = (struct settings){};
	settings_add_listen(settings, "", SETTINGS_LISTEN);
}

bool settings_add_listen(struct settings *settings, const char *where, const char *text)
{
	if (settings->n_listen == SOCKETS_MAX) {
		log_line(LOG_ERR, "%s: too many addresses to listen on: at most %d are allowed",
			 where, SOCKETS_MAX);
		return false;
	}
	if (!sockets_parse(&settings->listen[settings->n_listen], text)) {
		log_line(LOG_ERR,
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
		log_line(LOG_ERR,
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
		log_line(LOG_ERR, "%s: Listen= has no address: it must be " SOCKETS_FORMS, where);
	return settings->n_listen > 0;
}

static bool set(void *userdata, const char *where, const char *name, const char *value)
{
	struct settings *settings = userdata;

	if (strcmp(name, "Listen") == 0)
		return set_listen(settings, where, value);
	if (strcmp(name, "Socket") == 0)
		return settings_set_socket(settings, where, value);
	log_line(LOG_ERR, "%s: unknown key \"%s\": it must be Listen or Socket", where, name);
	return false;
}

int settings_read(struct settings *settings, const char *path, bool must_exist)
{
	return inifile_read(path, must_exist, "Exporter", set, settings);
}
