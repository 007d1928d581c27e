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

#include "proto/jsonout.h"
#include "sitelog.h"

#define SITEHOLD_WHY_MAX 512 /* with the NUL */

struct sitehold {
	int64_t since; /* seconds since 1970; 0: not known */
	char by[SITELOG_BY_MAX]; /* "?": not known */
	char why[SITEHOLD_WHY_MAX]; /* empty: no reason was given */
};

/* Whether the versions in DIR are held. A file that cannot be read, or has something else, holds them, too. */
bool sitehold_read(const char *dir, struct sitehold *ret);
/* They say what they have done, or print an error and end the program. */
void sitehold_hold(const char *dir, const char *why);
void sitehold_release(const char *dir);
/* A line, or the member "held" of the object that is open in JSON. */
void sitehold_print(const char *dir);
void sitehold_print_json(const char *dir, struct jsonout *json);
/* True: the versions are held; an error was printed. */
bool sitehold_refuses(const char *dir);
