/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Complaints about files that an admin wrote: errors, and warnings, which are separate. The caller decides whether they
 * go to stderr, the journal or the status.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct diag;

int diag_new(struct diag **ret);
struct diag *diag_free(struct diag *diag);

/*
 * Adds one error. LINE and COLUMN count from 1; 0: none. TEXT: the source line, need not end in NUL;
 * NULL: none. The first 20 errors are kept. Other errors, and those for which there is no memory, are only
 * counted.
 */
void diag_add(struct diag *diag, const char *file, unsigned line, unsigned column, const char *text,
	      size_t text_len, const char *fmt, ...) __attribute__((format(printf, 7, 8)));
/* As diag_add(), a warning: the file is used nevertheless. */
void diag_warn(struct diag *diag, const char *file, unsigned line, unsigned column,
	       const char *text, size_t text_len, const char *fmt, ...)
	__attribute__((format(printf, 7, 8)));

size_t diag_count(const struct diag *diag);
size_t diag_count_warnings(const struct diag *diag);
/* "file:line:column: message" of the first error, or NULL. Owned by DIAG. */
const char *diag_first(const struct diag *diag);
/* As diag_first(), for error I, or warning I; NULL if it was not kept. */
const char *diag_at(const struct diag *diag, size_t i);
const char *diag_warning_at(const struct diag *diag, size_t i);
/* diag_get() returns the parts of error I, owned by DIAG; false if it was not kept. */
struct diag_parts {
	const char *file; /* NULL: none */
	unsigned line, column; /* 0: none */
	const char *text;
};
bool diag_get(const struct diag *diag, size_t i, struct diag_parts *ret);
bool diag_get_warning(const struct diag *diag, size_t i, struct diag_parts *ret);
/*
 * Prints the errors that were kept, with source line and caret if there is one; then "and N more" for the
 * rest.
 */
void diag_print(const struct diag *diag, FILE *f);
/* As diag_print(), the warnings, as "file:line:column: warning: message". */
void diag_print_warnings(const struct diag *diag, FILE *f);
