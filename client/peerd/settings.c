/* SPDX-License-Identifier: BSD-2-Clause */
#include "settings.h"

/* clang-format off */
#define PATH(name, member) \
	{ "Peers", name, inifile_path, INIFILE_TEXT(struct settings, member), NULL, \
	  "an absolute path of at most 107 bytes" }

const struct inifile_key settings_keys[] = {
	{ "Peers", "Port", inifile_number, offsetof(struct settings, port), 1, 65535, "9472", NULL },
	PATH("Socket", socket),
	PATH("MungeSocket", munge_socket),
	{},
};
/* clang-format on */
