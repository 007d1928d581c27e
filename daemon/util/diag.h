/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Complaints about files that an admin wrote: errors, and warnings, which are separate. The caller decides whether they
 * go to stderr, the journal or the status.
 */

#include <stddef.h>
#include <stdio.h>

#define DIAG_KEPT 20

struct complaint {
	char *message; /* "file:line:column: text" */
	const char *text; /* points into MESSAGE */
	char *file; /* NULL: none */
	unsigned line, column; /* 0: none */
	char *excerpt; /* source line and caret line, ready to print; NULL: none */
};

struct complaints {
	struct complaint kept[DIAG_KEPT];
	size_t n_kept;
	size_t n; /* with those that were not kept */
};

struct diag {
	struct complaints errors, warnings;
};

int diag_new(struct diag **ret);
struct diag *diag_free(struct diag *diag);

/*
 * Adds a complaint. LINE and COLUMN count from 1; 0: none. TEXT: the source line, need not end in NUL; NULL: none. The first
 * DIAG_KEPT are kept. Others, and those for which there is no memory, are only counted.
 */
void complaints_add(struct complaints *complaints, const char *file, unsigned line, unsigned column,
		    const char *text, size_t text_len, const char *fmt, ...)
	__attribute__((format(printf, 7, 8)));
/* An error; a warning: the file is used nevertheless. */
#define diag_add(diag, ...) complaints_add(&(diag)->errors, __VA_ARGS__)
#define diag_warn(diag, ...) complaints_add(&(diag)->warnings, __VA_ARGS__)

/* The message of complaint I; NULL: it was not kept. */
const char *complaints_at(const struct complaints *complaints, size_t i);
/*
 * Prints the errors that were kept, with source line and caret if there is one; then "and N more" for the
 * rest.
 */
void diag_print(const struct diag *diag, FILE *f);
/* As diag_print(), the warnings, as "file:line:column: warning: message". */
void diag_print_warnings(const struct diag *diag, FILE *f);
