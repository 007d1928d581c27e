/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The settings, from exporter.conf (INI) and from the command line, which overrides the file. */

#include <stdbool.h>

#include "common/sockets.h"

#define SETTINGS_LISTEN "127.0.0.1:9471" /* used if no address is set */

struct settings {
	char socket[108]; /* the broker's socket; empty: the library's default */
	struct sockets_address listen[SOCKETS_MAX];
	unsigned n_listen;
};

void settings_init(struct settings *settings);
/*
 * Reads the file PATH, which must exist if MUST_EXIST is set. Returns 0 or a negative errno, after reporting each
 * error.
 */
int settings_read(struct settings *settings, const char *path, bool must_exist);
/*
 * Adds the address TEXT. False: TEXT is not valid, or there are too many addresses. The error was reported, with
 * WHERE before it.
 */
bool settings_add_listen(struct settings *settings, const char *where, const char *text);
bool settings_set_socket(struct settings *settings, const char *where, const char *path);
