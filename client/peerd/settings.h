/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The settings, from peerd.conf (INI) and from the command line, which overrides the file. */

#include "common/conffile.h"
#include "common/sockets.h"

struct settings {
	struct sockets_addresses listen; /* only from the command line */
	unsigned port; /* of rdmabroker-peerd on other hosts */
	char socket[108]; /* the broker's; empty: the library's default */
	char munge_socket[108]; /* empty: libmunge's default */
};

extern const struct inifile_key settings_keys[];
