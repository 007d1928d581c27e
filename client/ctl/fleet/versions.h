/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "ctl/siteversion.h"
#include "fleetctl.h"

/* A version in a directory, if WHAT has a slash, or one in etcd. NULL: an error was printed. */
struct site_version *version_load(struct fleetctl *ctl, const char *what);
/*
 * Checks VERSION, in a directory NAME for the time of the check, as --only-syntax and --policy-dir say. False: an error was
 * printed.
 */
bool version_check(const struct fleetctl *ctl, const struct site_version *version,
		   const char *name);
