/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <string.h>

#include "tests/bench/host/host.h"

void table_cell(struct table *table, const char *fmt, ...)
{
	char *cell;
	va_list ap;

	if (table->n_rows == TABLE_ROWS_MAX || table->n_cells == TABLE_COLUMNS_MAX)
		die("%s: too many cells", table->title);
	cell = table->cells[table->n_rows][table->n_cells++];
	va_start(ap, fmt);
	vsnprintf(cell, sizeof(table->cells[0][0]), fmt, ap);
	va_end(ap);
}

void table_end_row(struct table *table)
{
	if (table->n_rows == 0)
		table->n_columns = table->n_cells;
	if (table->n_cells != table->n_columns)
		die("%s: row %zu has another number of cells", table->title, table->n_rows);
	table->n_rows++;
	table->n_cells = 0;
}

static int width_of(const struct table *table, size_t column)
{
	size_t width = 0;

	for (size_t row = 0; row < table->n_rows; row++) {
		size_t len = strlen(table->cells[row][column]);

		width = len > width ? len : width;
	}
	return (int)width;
}

void table_print(const struct table *table)
{
	printf("%s\n", table->title);
	for (size_t row = 0; row < table->n_rows; row++) {
		for (size_t column = 0; column < table->n_columns; column++) {
			int width = width_of(table, column);

			printf("  %*s", column == 0 ? -width : width, table->cells[row][column]);
		}
		printf("\n");
	}
	printf("%s\n\n", table->note);
	fflush(stdout);
}

static void write_row(const struct table *table, size_t row, FILE *f)
{
	for (size_t column = 0; column < table->n_columns; column++)
		fprintf(f, "%s\"%s\"", column ? ", " : "[", table->cells[row][column]);
	fprintf(f, "]");
}

/* The note may contain newlines. No other character of a table needs an escape. */
void table_write(const struct table *table, FILE *f)
{
	fprintf(f, "{ \"title\": \"%s\", \"note\": \"", table->title);
	for (const char *c = table->note; *c; c++)
		fputc(*c == '\n' ? ' ' : *c, f);
	fprintf(f, "\",\n    \"head\": ");
	write_row(table, 0, f);
	fprintf(f, ",\n    \"rows\": [");
	for (size_t row = 1; row < table->n_rows; row++) {
		fprintf(f, "%s\n      ", row > 1 ? "," : "");
		write_row(table, row, f);
	}
	fprintf(f, " ] }");
}
