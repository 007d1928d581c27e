/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The last changes of which version is in force, for `site log`: who has changed what, and when. */

#include <stdbool.h>

#define SITELOG_FILE "log"

/*
 * Adds a change to the log beside the versions in the directory DIR: ACTION is a verb in the past, such as "installed". VERSION
 * and PREVIOUS can be NULL. BY NULL: by the user who runs this program. 0 or a negative errno.
 */
int sitelog_add(const char *dir, const char *action, const char *version, const char *previous,
		const char *by);
/* Prints the log, the newest first. Returns an exit status. */
int sitelog_print(const char *dir, bool as_json);
