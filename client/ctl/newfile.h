/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A file that replaces another one as a whole. It has a name of its own until it is complete. Another user may own the folder:
 * nothing that he makes there is followed or overwritten.
 */

#include <limits.h>
#include <stdio.h>

struct newfile {
	FILE *file; /* for the caller to write to */
	int folder;
	char name[NAME_MAX + 1], temporary[NAME_MAX + 1];
};

/* Returns 0 or a negative errno. */
int newfile_begin(struct newfile *ret, const char *folder, const char *name);
/* The file has its name, mode 0644, and is on the disk; or it is gone. Returns 0 or a negative errno. */
int newfile_end(struct newfile *file);
