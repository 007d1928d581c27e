/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What is known about the version in force, and about the last that was to be: a file of lines "KEY VALUE" beside the versions,
 * which everybody can read. `site status` prints it, and rdmabroker-exporter makes metrics of it, so keys keep their meaning.
 * It is written only when something in it has changed. A line without a value is left out.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sysexits.h>

#include "siteversion.h"

/* It cannot be done now, for a reason that can pass: somebody else holds the lock, no space, the daemon hangs. */
#define EXIT_LATER EX_TEMPFAIL

#define SITESTATE_FILE "state"
#define SITESTATE_ERROR_MAX 512

/* The values of "state". */
#define SITE_IN_FORCE "in-force"
#define SITE_DRIFT "drift-put-back" /* in force; its files had been edited on this host */
#define SITE_UNCONFIRMED \
	"unconfirmed" /* the daemon has not confirmed the version that was to be in force */
#define SITE_REFUSED "refused" /* the version that was to be in force is wrong on this host */
#define SITE_FAILED "failed" /* it could not be put in force, but the same can be right later */
#define SITE_HELD "held" /* by an admin of this host */

struct sitestate {
	char state[16]; /* empty: nothing was installed yet */
	char version[SITE_NAME_MAX + 1]; /* that the daemon has; empty: none */
	char sha256[SHA256_TEXT]; /* of its names and contents, see siteversion_digest() */
	char wanted[SITE_NAME_MAX + 1]; /* the last one that was to be in force */
	char wanted_sha256[SHA256_TEXT];
	char code[16]; /* why the wanted one is not in force: see CODE_* in site.c; "ok": it is */
	char error[SITESTATE_ERROR_MAX]; /* the first one, printable; empty: none */
	int64_t since; /* seconds since 1970: of all members above */
	/* When the wanted one was checked last, and what this host's own rules, users and daemon were then. */
	int64_t checked;
	char host[SHA256_TEXT];
};

/* DIR has the versions. What cannot be read is empty. */
void sitestate_read(const char *dir, struct sitestate *ret);
/* Whether all members down to SINCE are the same, but for SINCE. */
bool sitestate_is_same(const struct sitestate *a, const struct sitestate *b);
/* Writes STATE if the file does not have it already. 0 or a negative errno. */
int sitestate_write(const char *dir, const struct sitestate *state);
