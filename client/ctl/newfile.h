/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A file that replaces another one as a whole. It has a name of its own until it is complete. Another user may own the folder:
 * nothing that he makes there is followed or overwritten.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct newfile {
	FILE *file; /* for the caller to write to */
	int folder;
	const char *path; /* of the folder */
	char name[NAME_MAX + 1], temporary[NAME_MAX + 1];
};

#define NEWFILE_TEXT_MAX 8192 /* bytes of a file that is read, with the NUL */

/* Reads the beginning of FOLDER/NAME. False: it cannot be read. RET is a string in any case. */
bool newfile_read(const char *folder, const char *name, char ret[NEWFILE_TEXT_MAX]);
/* False: an error was printed. FOLDER outlives RET. */
bool newfile_begin(struct newfile *ret, const char *folder, const char *name);
/* The file has its name, mode 0644, and is on the disk; or it is gone. False: an error was printed. */
bool newfile_end(struct newfile *file);
/* Both, with a text, but prints no error. Returns 0 or a negative errno. */
__attribute__((format(printf, 3, 4))) int newfile_print(const char *folder, const char *name,
							const char *fmt, ...);
/* The same in a folder that is made if it does not exist; or prints an error and ends the program. */
__attribute__((format(printf, 3, 4))) void newfile_configure(const char *folder, const char *name,
							     const char *fmt, ...);
/* False: PATH is still there, and an error was printed. */
bool newfile_remove(const char *path);
