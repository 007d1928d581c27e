/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stdbool.h>

#include "siteversion.h"

enum sitecheck {
	SITECHECK_VALID,
	SITECHECK_REFUSED, /* the version is wrong on this host */
	SITECHECK_NOT_RUN, /* it is not known: the check could not be run, or did not end in time */
};

/* How a version is checked that is not for this host, or not only. All zero: as for this host. */
struct sitecheck_how {
	bool names_dir; /* the errors name the files with the last part of DIR; else without a directory */
	bool is_foreign; /* users and groups that this host does not know are only warnings */
	bool skips_tests;
	/* Absolute: a directory and a file in place of the rules and the configuration of this host; NULL: none. */
	const char *policy_dir, *config;
};

/*
 * Checks VERSION, whose files are in DIR, by `rdmabrokerd --check`: its rules together with the rules of this host, and its
 * tests. HOW can be NULL. An error was printed unless it is valid.
 */
enum sitecheck sitecheck_run(const char *dir, const struct site_version *version,
			     const struct sitecheck_how *how);
/* The same for a copy of VERSION, in a directory NAME that is gone afterwards. */
enum sitecheck sitecheck_run_copy(const struct site_version *version, const char *name);
