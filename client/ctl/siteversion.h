/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A version of a site's policy: a directory with files of rules (NAME.rules) and of their tests (NAME.tests), and nothing
 * else. What is installed never changes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "sha256.h"

#define SITE_FILES_MAX 256
#define SITE_SIZE_MAX (4 * 1024 * 1024) /* bytes of all files together */
#define SITE_NAME_MAX 64 /* of a version, or of a file */

/* True: NAME has 1 to 64 letters, digits, '.', '_', '-' and '+', and does not begin with '.' or '-'. */
bool site_is_name(const char *name);

struct site_known {
	char name[SITE_NAME_MAX + 1];
	struct timespec since;
};

/*
 * The versions in the directory DIR, the newest first. Returns how many there are; the caller frees *RET. What cannot be
 * read is left out.
 */
size_t site_list(const char *dir, struct site_known **ret);

struct site_file {
	char name[SITE_NAME_MAX + 1];
	char *text;
	size_t len;
	unsigned mode; /* the permissions of what was read */
};

struct site_version {
	struct site_file files[SITE_FILES_MAX]; /* sorted by name */
	size_t n;
};

/* GIVEN, or the name of the directory DIR if GIVEN is NULL. If that is no name of a version, the program ends. */
void siteversion_get_name(char ret[SITE_NAME_MAX + 1], const char *dir, const char *given);
bool siteversion_is_test(const struct site_file *file);
/*
 * Reads the version in DIR, which another user can write at the same time: no link is followed, and nothing but plain
 * files is opened. NULL: an error was printed, and errno is EINVAL if the version is wrong, else that of this host's failure.
 */
struct site_version *siteversion_read(const char *dir);
struct site_version *siteversion_free(struct site_version *version);
/* Writes VERSION to DIR, which must not exist. False: an error was printed, and DIR is gone again. */
bool siteversion_write(const struct site_version *version, const char *dir);
bool siteversion_equal(const struct site_version *a, const struct site_version *b);
/* Whether only its owner can write what was read. */
bool siteversion_is_safe(const struct site_version *version);
/*
 * Its names and contents as a digest, which a shell makes of its directory by
 *   LC_ALL=C sha256sum -- * | sha256sum
 * False: out of memory; an error was printed.
 */
bool siteversion_digest(const struct site_version *version, char ret[SHA256_TEXT]);
/* Removes DIR with all that is in it. False: an error was printed. */
bool siteversion_remove(const char *dir);
