/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* How the file of a program gets librdmacm past the drop-in, for the verbs dropin and run. */

#include <limits.h>
#include <stdbool.h>

struct bypass {
	const char *file; /* of the program, or of a library that it needs */
	/*
	 * "needed": ld.so finds this copy first, by a run path or LD_LIBRARY_PATH. "path": the file names the copy by its path,
	 * most often for dlopen(). "static": the file contains the copy itself.
	 */
	const char *way;
	const char *copy;
};

/* Looks for NAME as execvp() does. False: there is no such file that can be executed. */
bool bypass_find_program(const char *name, char ret[PATH_MAX]);
/* Why ld.so does not preload libraries of this user into PROGRAM; NULL: it does. */
const char *bypass_secure(const char *program);
/*
 * Calls FOUND for each way of the ELF file PROGRAM. IS_REACHED says for a copy that ld.so finds whether it is the drop-in, or would
 * be. False: an error was printed.
 */
bool bypass_look(const char *program, bool (*is_reached)(const char *copy, void *arg),
		 void (*found)(const struct bypass *bypass, void *arg), void *arg);
