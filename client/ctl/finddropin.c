/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <rdmabroker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "finddropin.h"

bool dropin_find(char ret[PATH_MAX])
{
	static const char *const places[] = { "/rdmabroker/" DROPIN, "/" DROPIN };
	char folder[PATH_MAX], *slash;
	Dl_info info;

	if (!dladdr((void *)rdmabroker_get_version, &info) || !realpath(info.dli_fname, folder))
		return false;
	slash = strrchr(folder, '/');
	*slash = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (snprintf(ret, PATH_MAX, "%s%s", folder, places[i]) < PATH_MAX &&
		    access(ret, R_OK) == 0)
			return true;
	return false;
}

bool dropin_find_folder(const char *path, char ret[PATH_MAX])
{
	char real[PATH_MAX];

	return realpath(path, real) &&
	       snprintf(ret, PATH_MAX, "%.*s/default", (int)(strrchr(real, '/') - real), real) <
		       PATH_MAX &&
	       access(ret, R_OK) == 0;
}
