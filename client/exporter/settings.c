/* SPDX-License-Identifier: BSD-2-Clause */
#include "settings.h"

static size_t parse_listen(const struct inifile_key *key, const char *value, void *field)
{
	struct sockets_addresses *addresses = field;
	char word[INIFILE_WORD_SIZE];
	size_t from, at = 0;

	addresses->n = 0;
	while ((from = inifile_word(value, " \t", &at, word)) > 0)
		if (!sockets_add(addresses, word, /* may_be_path= */ true))
			return from;
	return addresses->n == 0;
}

const struct inifile_key settings_keys[] = {
	{ "Exporter", "Listen", parse_listen, offsetof(struct settings, listen), 0, 0,
	  SETTINGS_LISTEN, "at most 8 addresses, each " SOCKETS_ANY },
	{ "Exporter", "Socket", inifile_path, INIFILE_TEXT(struct settings, socket), NULL,
	  "an absolute path of at most 107 bytes" },
	{ "Exporter", "SiteDir", inifile_path, INIFILE_TEXT(struct settings, site),
	  "/var/lib/rdmabroker/site", "an absolute path of at most 255 bytes" },
	{ "Exporter", "PullDir", inifile_path, INIFILE_TEXT(struct settings, pull),
	  "/var/lib/rdmabroker-pull", "an absolute path of at most 255 bytes" },
	{},
};
