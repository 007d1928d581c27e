/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What `site` says and does about a version that an admin of this host holds; see common/sitehold.h. */

#include <stdbool.h>
#include <stdint.h>
#include <sysexits.h>

#include "proto/jsonout.h"

/* It cannot be done now, for a reason that can pass: somebody else holds the lock, no space, the daemon hangs. */
#define EXIT_LATER EX_TEMPFAIL

/* DIR has the versions. They return an exit status. */
int siteheld_hold(const char *dir, const char *why);
int siteheld_release(const char *dir);
/* A line, or the member "held" of the object that is open in JSON. */
void siteheld_print(const char *dir);
void siteheld_print_json(const char *dir, struct jsonout *json);
/* True: it is held; an error was printed. RET_SINCE: as in struct sitehold. */
bool siteheld_refuses(const char *dir, int64_t *ret_since);
