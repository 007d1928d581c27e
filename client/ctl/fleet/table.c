/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text.h"
#include "table.h"

#define CELL_MAX 512

void printable(char *ret, size_t size, const char *text)
{
	size_t len = strcspn(text, "\n"), at = 0, n;

	for (size_t i = 0; i < len; i += n) {
		n = text_printable(text + i, len - i);
		if (at + (n ?: 1) >= size)
			break;
		if (n > 0) {
			memcpy(ret + at, text + i, n);
			at += n;
		} else {
			ret[at++] = '?';
			n = 1;
		}
	}
	ret[at] = 0;
}

void table_add(struct table *table, const char *fmt, ...)
{
	char text[CELL_MAX], cell[CELL_MAX];
	char **cells;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printable(cell, sizeof(cell), text);
	cells = realloc(table->cells, (table->n_cells + 1) * sizeof(*cells));
	if (cells) {
		table->cells = cells;
		cells[table->n_cells] = strdup(*cell ? cell : "-");
	}
	if (!cells || !cells[table->n_cells])
		table->has_failed = true;
	else
		table->n_cells++;
}

/* How many columns of a terminal TEXT has, if each character has one. */
static int width_of(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

static void print_row(const struct table *table, size_t n, const int *widths,
		      const char *const *cells, bool is_head, FILE *file)
{
	for (size_t i = 0; i < n; i++) {
		bool right = table->heads[i][0] == '-';
		const char *cell = cells[i] + (is_head && right);
		int blanks = widths[i] - width_of(cell);
		bool is_last = i == n - 1;

		fprintf(file, "%*s%s%*s", right ? blanks : 0, "", cell,
			is_last ? 0 : 2 + (right ? 0 : blanks), "");
	}
	fputc('\n', file);
}

bool table_print(struct table *table, FILE *file)
{
	int widths[TABLE_COLUMNS_MAX] = { 0 };
	size_t n = 0;

	while (table->heads[n])
		n++;
	for (size_t i = 0; i < n; i++)
		widths[i] = width_of(table->heads[i]) - (table->heads[i][0] == '-');
	for (size_t i = 0; i < table->n_cells; i++)
		if (width_of(table->cells[i]) > widths[i % n])
			widths[i % n] = width_of(table->cells[i]);
	if (!table->has_failed && (table->needs_heads || table->n_cells > 0))
		print_row(table, n, widths, table->heads, /* is_head= */ true, file);
	for (size_t i = 0; !table->has_failed && i < table->n_cells; i += n)
		print_row(table, n, widths, (const char *const *)table->cells + i,
			  /* is_head= */ false, file);
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	table->cells = NULL;
	table->n_cells = 0;
	return !table->has_failed;
}
