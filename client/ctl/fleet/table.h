/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A table whose columns are as wide as their longest cell. */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 12

struct table {
	const char *const
		*heads; /* ended by NULL; "-" before a head: the column is aligned at its right */
	char **cells;
	size_t n_cells;
	bool needs_heads; /* the heads are printed without rows, too */
	bool has_failed; /* out of memory */
};

/* Adds the next cell. What cannot be printed becomes '?', and only the first line is taken. Empty: "-". */
__attribute__((format(printf, 2, 3))) void table_add(struct table *table, const char *fmt, ...);
/* Prints the table to FILE, and frees the cells. False: out of memory. */
bool table_print(struct table *table, FILE *file);

/* Copies TEXT, as table_add() does, to RET of SIZE bytes. */
void printable(char *ret, size_t size, const char *text);
