/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The last changes of which version is in force, for `site log`: who has changed what, and when. */

#include <stdbool.h>

#define SITELOG_FILE "log"
#define SITELOG_BY_MAX 384

/*
 * Who runs this program: "USER@HOST", or "USER@HOST (as root)" if USER became root by sudo. All characters are printable. It is
 * what they say themselves: it proves nothing.
 */
void sitelog_author(char ret[SITELOG_BY_MAX]);

/*
 * Adds a change to the log beside the versions in the directory DIR: ACTION is a verb in the past, such as "installed". VERSION
 * and PREVIOUS can be NULL. BY NULL: by the user who runs this program. 0 or a negative errno.
 */
int sitelog_add(const char *dir, const char *action, const char *version, const char *previous,
		const char *by);
/* Prints the log, the newest first. */
void sitelog_print(const char *dir, bool as_json);
