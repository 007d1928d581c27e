/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Complaints about files that an admin wrote. They are collected, not printed: the caller decides whether they go to
 * stderr (--check), to the journal (reload) or to the status (the first one).
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct diag; /* opaque */

int diag_new(struct diag **ret);
struct diag *diag_free(struct diag *diag);

/*
 * Add one complaint. LINE and COLUMN count from 1; 0: none. TEXT is the source line (need not end in NUL; may be
 * NULL) that is shown with a caret below COLUMN. At most 20 complaints are kept, the others are only counted. If
 * there is no memory the complaint is still counted.
 */
void diag_add(struct diag *diag, const char *file, unsigned line, unsigned column, const char *text,
	      size_t text_len, const char *fmt, ...) __attribute__((format(printf, 7, 8)));

size_t diag_count(const struct diag *diag);
/* "file:line:column: message" of the first complaint, or NULL. Owned by DIAG. */
const char *diag_first(const struct diag *diag);
/* The same of complaint I (no caret lines), or NULL past the end. */
const char *diag_at(const struct diag *diag, size_t i);
/* diag_get(): the parts of complaint I; false past the end. */
struct diag_parts {
	const char *file; /* NULL: none */
	unsigned line, column; /* 0: none */
	const char *text;
};
bool diag_get(const struct diag *diag, size_t i, struct diag_parts *ret);
/* Prints all complaints: message, source line, caret; "and N more" if some were not kept. */
void diag_print(const struct diag *diag, FILE *f);
