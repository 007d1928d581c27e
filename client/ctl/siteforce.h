/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Which version is in force, and how another one gets there:
 *
 *   DIRECTORY/current        a link to the version that the daemon reads (SitePolicyDir=)
 *   DIRECTORY/.unconfirmed   exists from before the link changes until the daemon has taken what the link names, and has the name
 *                            of the version that the daemon had. A process that was killed in between leaves it, and then the
 *                            daemon may have either.
 */

#include "site.h"

/* The version that the daemon has, as far as it has confirmed that. False: none. */
bool siteforce_get(const struct site *site, char ret[SITE_NAME_MAX + 1]);
bool siteforce_is_unconfirmed(const struct site *site);
/* What the link names may change. False: an error was printed. */
bool siteforce_mark_unconfirmed(const struct site *site);
/* Puts WANTED in force, which was checked. IS_NEW: its files have changed. Returns an exit status, and fills SITE->result. */
int siteforce_put(struct site *site, bool is_new);
