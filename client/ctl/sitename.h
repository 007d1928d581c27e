/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The names of the versions of a site's policy and of their files, their limits, and the directories they lie in. */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define SITE_FILES_MAX 256
#define SITE_SIZE_MAX (4 * 1024 * 1024) /* bytes of all files together */
#define SITE_NAME_MAX 64 /* of a version, or of a file */

/* True: NAME has 1 to 64 letters, digits, '.', '_', '-' and '+', and does not begin with '.' or '-'. */
bool site_is_name(const char *name);

struct site_known {
	char name[SITE_NAME_MAX + 1];
	struct timespec since;
};

/*
 * The versions in the directory DIR, the newest first. Returns how many there are; the caller frees *RET. What cannot be
 * read is left out.
 */
size_t site_list(const char *dir, struct site_known **ret);
