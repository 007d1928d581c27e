/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/inifile.h"
#include "common/log.h"
#include "settings.h"

bool settings_add_listen(struct settings *settings, const char *where, const char *text)
{
	struct sockets_address *address = &settings->listen[settings->n_listen];

	if (settings->n_listen == SOCKETS_MAX) {
		log_line(LOG_ERR, "%s: too many addresses to listen on: at most %d are allowed",
			 where, SOCKETS_MAX);
		return false;
	}
	if (!sockets_parse(address, text) || address->addr.sa.sa_family == AF_UNIX) {
		log_line(LOG_ERR,
			 "%s: invalid address \"%s\" to listen on: it must be HOST:PORT, "
			 "[HOST]:PORT or :PORT (every address of this host)",
			 where, text);
		return false;
	}
	settings->n_listen++;
	return true;
}

static bool set_port(struct settings *settings, const char *where, const char *value)
{
	char *end = NULL;
	unsigned long n = *value >= '0' && *value <= '9' ? strtoul(value, &end, 10) : 0;

	if (!end || *end || n < 1 || n > UINT16_MAX) {
		log_line(LOG_ERR, "%s: Port= must be a number from 1 to 65535", where);
		return false;
	}
	settings->port = (uint16_t)n;
	return true;
}

bool settings_set_path(char ret[SETTINGS_PATH_MAX], const char *where, const char *path)
{
	if (path[0] != '/' || strlen(path) >= SETTINGS_PATH_MAX) {
		log_line(LOG_ERR, "%s: a socket must be an absolute path of at most %d bytes",
			 where, SETTINGS_PATH_MAX - 1);
		return false;
	}
	strcpy(ret, path);
	return true;
}

static bool set(void *userdata, const char *where, const char *name, const char *value)
{
	struct settings *settings = userdata;

	if (strcmp(name, "Port") == 0)
		return set_port(settings, where, value);
	if (strcmp(name, "Socket") == 0)
		return settings_set_path(settings->socket, where, value);
	if (strcmp(name, "MungeSocket") == 0)
		return settings_set_path(settings->munge_socket, where, value);
	log_line(LOG_ERR, "%s: unknown key \"%s\": it must be Port, Socket or MungeSocket", where,
		 name);
	return false;
}

int settings_read(struct settings *settings, const char *path, bool must_exist)
{
	*settings = (struct settings){ .port = SETTINGS_PORT };
	return inifile_read(path, must_exist, "Peers", set, settings);
}

struct seal settings_seal(const struct settings *settings)
{
	return (struct seal){ .socket = *settings->munge_socket ? settings->munge_socket : NULL };
}
