/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "ctl/siteversion.h"
#include "fleetctl.h"

/* A version in a directory, if WHAT has a slash, or one in etcd. False: an error was printed. Free *RET in any case. */
bool version_load(struct fleetctl *ctl, const char *what, struct site_version **ret);
struct site_version *version_free(struct site_version *version);
/* Checks VERSION in a directory for the time of the check. False: an error was printed. */
bool version_check(const struct site_version *version, const char *name);
