/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stdbool.h>

#include "siteversion.h"

/*
 * Checks VERSION, whose files are in DIR, by `rdmabrokerd --check`: its rules together with the rules of this host, and its
 * tests. False: an error was printed.
 */
bool sitecheck_run(const char *dir, const struct site_version *version);
/* The same for a copy of VERSION, in a directory NAME that is gone afterwards. */
bool sitecheck_run_copy(const struct site_version *version, const char *name);
