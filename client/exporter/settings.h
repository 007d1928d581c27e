/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* exporter.conf: INI, read by libinih; and the options of the command line, which override it. */

#include <stdbool.h>

#include "sockets.h"

#define SETTINGS_LISTEN "127.0.0.1:9471" /* if nothing else is set */

struct settings {
	char socket[108]; /* of the broker; empty: the library's default */
	struct sockets_address listen[SOCKETS_MAX];
	unsigned n_listen;
};

void settings_init(struct settings *settings); /* the defaults */
/*
 * Reads PATH. If it is not there that is an error only with MUST_EXIST. Returns 0 or a negative errno; each error was
 * reported with its line.
 */
int settings_read(struct settings *settings, const char *path, bool must_exist);
/* Adds an address. False: it is not one, or there are too many, which was reported with WHERE before it. */
bool settings_add_listen(struct settings *settings, const char *where, const char *text);
bool settings_set_socket(struct settings *settings, const char *where, const char *path);
