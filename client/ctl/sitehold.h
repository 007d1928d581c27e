/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An admin of this host holds the version in force: nothing else changes it. It is a file in the directory of the
 * versions, which `rdmabrokerctl site hold` writes, and `site release` removes:
 *
 *   SECONDS BY     seconds since 1970, and who holds it
 *   WHY            a line; can be empty
 */

#include <stdbool.h>
#include <stdint.h>

#include "author.h"

#define SITEHOLD_FILE "hold"
#define SITEHOLD_WHY_MAX 512 /* with the NUL */

struct sitehold {
	int64_t since; /* seconds since 1970; 0: not known */
	char by[AUTHOR_MAX]; /* "?": not known */
	char why[SITEHOLD_WHY_MAX]; /* empty: no reason was given */
};

/* Whether the versions in the directory SITE are held. A file that cannot be read, or has something else, holds them, too. */
bool sitehold_read(const char *site, struct sitehold *ret);
/* Writes the file as a whole. 0 or a negative errno. */
int sitehold_write(const char *site, const struct sitehold *hold);
/* 1: it was held; 0: it was not; or a negative errno. */
int sitehold_remove(const char *site);
