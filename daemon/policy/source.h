/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Reads the text of a file that an admin wrote, line by line. A file is refused if others than its owner can
 * write it, or if its owner is neither root nor the daemon's own user.
 */

#include <stdbool.h>
#include <stddef.h>

#define SOURCE_LINE_MAX 4096 /* bytes, without the newline */
#define SOURCE_SIZE_MAX (1024 * 1024)

struct diag;
struct source;

struct source_line {
	const char *text; /* without the newline; does not end in NUL */
	size_t len;
	unsigned number; /* from 1 */
};

/*
 * Reads the file PATH. Follows symbolic links; the target must be a regular file that root or the daemon's
 * own user owns, and that neither group nor others can write. Complaints go to DIAG, except about a missing
 * file if OPTIONAL.
 *
 * Returns 0, -EPERM (owner or mode), -EINVAL (no regular file), -EFBIG, or another negative errno.
 */
int source_new_file(struct source **ret, const char *path, bool optional, struct diag *diag);
/* As source_new_file(), from a copy of TEXT. */
int source_new_text(struct source **ret, const char *name, const char *text, size_t len,
		    struct diag *diag);
/* Makes a copy of SOURCE, which is read from its first line again. Returns 0 or -ENOMEM. */
int source_copy(struct source **ret, const struct source *source);
struct source *source_free(struct source *source);

const char *source_name(const struct source *source);

/* Gets the next line. False: there are no more lines. */
bool source_next(struct source *source, struct source_line *ret);
/*
 * True if LINE is not too long, is UTF-8 without a byte order mark, and has no control characters except tabs.
 * Otherwise a complaint is added to DIAG, and the line must not be parsed.
 */
bool source_check_line(const struct source *source, const struct source_line *line,
		       struct diag *diag);

/*
 * Lists the paths of all entries of DIR that end in SUFFIX and are not hidden, sorted by their bytes and
 * terminated by NULL. The directory's owner and mode are checked as those of a file. Returns 0 or a negative
 * errno; DIAG gets a complaint, except about a missing DIR if OPTIONAL.
 */
int source_list_new(char ***ret, const char *dir, const char *suffix, bool optional,
		    struct diag *diag);
char **source_list_free(char **paths);
