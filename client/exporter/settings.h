/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The settings, from exporter.conf (INI) and from the command line, which overrides the file. */

#include "common/conffile.h"
#include "common/sockets.h"

#define SETTINGS_LISTEN "127.0.0.1:9471" /* used if no address is set */

struct settings {
	char socket[108]; /* the broker's socket; empty: the library's default */
	struct sockets_addresses listen;
	char site[256], pull[256]; /* directories, of `rdmabrokerctl site` and rdmabroker-pull */
};

extern const struct inifile_key settings_keys[];
