/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A configuration file (INI) with one section. */

#include <stdbool.h>

/* Called for each key of the section. WHERE: "FILE:LINE". Returns false after reporting an error. */
typedef bool inifile_set(void *userdata, const char *where, const char *name, const char *value);

/*
 * Reads the file PATH, whose keys must all be in SECTION. Goes on after an error, so that each one is reported, to
 * stderr (log.h). Returns 0 or a negative errno. A file that does not exist is an error only if MUST_EXIST is set.
 */
int inifile_read(const char *path, bool must_exist, const char *section, inifile_set *set,
		 void *userdata);
