/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "siteversion.h"

enum sitecheck {
	SITECHECK_VALID,
	SITECHECK_REFUSED, /* the version is wrong on this host */
	SITECHECK_NOT_RUN, /* it is not known: the check could not be run, or did not end in time */
};

/* The program that checks, and that is the daemon: of the environment or the installed one. */
const char *sitecheck_program(void);
/*
 * Checks VERSION, whose files are in DIR, by `rdmabrokerd --check`: its rules together with the rules of this host, and its
 * tests. The errors name the files without a directory. An error was printed unless it is valid, and
 * the first one is first_error().
 */
enum sitecheck sitecheck_run(const char *dir, const struct site_version *version);
/* The same for a copy of VERSION, in a directory NAME that is gone afterwards. */
enum sitecheck sitecheck_run_copy(const struct site_version *version, const char *name);

/*
 * A digest of what of this host decides whether a version is valid here: its configuration and own rules, its local users and
 * groups, and the installed daemon, by the size and the times of their files. Users of a directory service are not in it.
 * Empty: not known.
 */
void sitecheck_digest_host(char ret[SHA256_TEXT]);
