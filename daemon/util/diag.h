/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Complaints about files that an admin wrote. They are collected and not printed at once: the caller decides
 * whether they go to stderr (--check), to the journal (reload) or to the status (only the first one).
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct diag;

int diag_new(struct diag **ret);
struct diag *diag_free(struct diag *diag);

/*
 * Adds one complaint. LINE and COLUMN count from 1; 0: none. TEXT is the source line (need not end in NUL;
 * may be NULL) that is shown with a caret below COLUMN. At most 20 complaints are kept, further ones are only
 * counted. If memory runs out, the complaint is only counted too.
 */
void diag_add(struct diag *diag, const char *file, unsigned line, unsigned column, const char *text,
	      size_t text_len, const char *fmt, ...) __attribute__((format(printf, 7, 8)));

size_t diag_count(const struct diag *diag);
/* "file:line:column: message" of the first complaint, or NULL. Owned by DIAG. */
const char *diag_first(const struct diag *diag);
/* As diag_first(), for complaint I; NULL past the last one that was kept. */
const char *diag_at(const struct diag *diag, size_t i);
/* The parts of a complaint. diag_get() returns those of complaint I; false past the last one that was kept. */
struct diag_parts {
	const char *file; /* NULL: none */
	unsigned line, column; /* 0: none */
	const char *text;
};
bool diag_get(const struct diag *diag, size_t i, struct diag_parts *ret);
/* Prints all complaints: message, source line, caret; "and N more" if some were not kept. */
void diag_print(const struct diag *diag, FILE *f);
