/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The text of a file that an admin wrote, line by line. */

#include <stdbool.h>
#include <stddef.h>

#include "proto/text.h"

#define SOURCE_SIZE_MAX (1024 * 1024)

struct diag;
struct source;

/*
 * Reads the file PATH, following symbolic links. It must be a regular file of root or of the daemon's own user, which
 * neither group nor others can write. Complaints are added to DIAG, except about a missing file if OPTIONAL.
 *
 * Returns 0, -EPERM (owner or mode), -EINVAL (no regular file), -EFBIG, or another negative errno.
 */
int source_new_file(struct source **ret, const char *path, bool optional, struct diag *diag);
/* As source_new_file(), from a copy of TEXT. */
int source_new_text(struct source **ret, const char *name, const char *text, size_t len,
		    struct diag *diag);
/* The copy is read from its first line again. Returns 0 or -ENOMEM. */
int source_copy(struct source **ret, const struct source *source);
struct source *source_free(struct source *source);

/*
 * Complains that the file or directory PATH cannot be opened because of ERROR, an errno. If the daemon's user has no
 * permission, the complaint says how to give it. Returns -ERROR.
 */
int source_complain_open(const char *path, int error, bool is_dir, struct diag *diag);

const char *source_name(const struct source *source);
const char *source_text(const struct source *source, size_t *ret_size);

/* The caller checks the line with text_line_fault(). */
bool source_next(struct source *source, struct text_line *ret);

/*
 * Lists the paths of the entries of DIR that end in SUFFIX, except hidden ones. *ret is sorted by bytes and ends with
 * NULL. DIR must have the owner and mode that a file must have. A file whose name has another end is a warning, if it
 * can be a mistake: it is no backup, for example.
 *
 * Returns 0 or a negative errno. Complaints are added to DIAG, except about a missing DIR if OPTIONAL.
 */
int source_list_new(char ***ret, const char *dir, const char *suffix, bool optional,
		    struct diag *diag);
char **source_list_free(char **paths);
