/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The settings, from peerd.conf (INI) and from the command line, which overrides the file. */

#include <stdbool.h>
#include <stdint.h>

#include "common/sockets.h"
#include "seal.h"

#define SETTINGS_PORT 9472
#define SETTINGS_PATH_MAX 108

struct settings {
	struct sockets_address listen[SOCKETS_MAX]; /* only from the command line */
	unsigned n_listen;
	uint16_t port; /* of rdmabroker-peerd on other hosts */
	char socket[SETTINGS_PATH_MAX]; /* the broker's; empty: the library's default */
	char munge_socket[SETTINGS_PATH_MAX]; /* empty: libmunge's default */
};

/*
 * Reads the file PATH, which must exist if MUST_EXIST is set; without one, the defaults apply. Returns 0 or a negative
 * errno, after reporting each error.
 */
int settings_read(struct settings *settings, const char *path, bool must_exist);
/* Adds an address to listen on. False: the error was reported, with WHERE before it. */
bool settings_add_listen(struct settings *settings, const char *where, const char *text);
/* Sets an absolute path. False: it is none; the error was reported, with WHERE before it. */
bool settings_set_path(char ret[SETTINGS_PATH_MAX], const char *where, const char *path);
struct seal settings_seal(const struct settings *settings);
