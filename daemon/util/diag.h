/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Complaints about files that an admin wrote. The caller decides whether they go to stderr, the journal or
 * the status.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct diag;

int diag_new(struct diag **ret);
struct diag *diag_free(struct diag *diag);

/*
 * Adds one complaint. LINE and COLUMN count from 1; 0: none. TEXT: the source line, need not end in NUL;
 * NULL: none. The first 20 complaints are kept. Other complaints, and those for which there is no memory, are
 * only counted.
 */
void diag_add(struct diag *diag, const char *file, unsigned line, unsigned column, const char *text,
	      size_t text_len, const char *fmt, ...) __attribute__((format(printf, 7, 8)));

size_t diag_count(const struct diag *diag);
/* "file:line:column: message" of the first complaint, or NULL. Owned by DIAG. */
const char *diag_first(const struct diag *diag);
/* As diag_first(), for complaint I; NULL if it was not kept. */
const char *diag_at(const struct diag *diag, size_t i);
/* diag_get() returns the parts of complaint I, owned by DIAG; false if it was not kept. */
struct diag_parts {
	const char *file; /* NULL: none */
	unsigned line, column; /* 0: none */
	const char *text;
};
bool diag_get(const struct diag *diag, size_t i, struct diag_parts *ret);
/*
 * Prints the complaints that were kept, with source line and caret if there is one; then "and N more" for the
 * rest.
 */
void diag_print(const struct diag *diag, FILE *f);
