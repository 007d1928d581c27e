/* SPDX-License-Identifier: BSD-2-Clause */
#include <libsmartcols/libsmartcols.h>
#include <stdlib.h>
#include <string.h>

#include "proto/addr.h"
#include "proto/names.h"
#include "proto/text.h"
#include "table.h"

#define CELL_MAX 2048 /* bytes; what is longer is cut */
#define LAST_MIN 16 /* the width of a last column that is cut, even if lines wrap then */

static bool is_end(const struct column *column)
{
	return !column->head && !column->key;
}

static const void *value_at(const struct column *column, const void *row)
{
	return (const char *)row + column->offset;
}

static bool is_number(const struct column *column)
{
	return column->type >= COLUMN_INT && column->type <= COLUMN_UINT64;
}

/* False: there is none. */
static bool get_number(const struct column *column, const void *at, long long *ret)
{
	*ret = column->type == COLUMN_INT      ? *(const int *)at :
	       column->type == COLUMN_UNSIGNED ? *(const unsigned *)at :
						 *(const int64_t *)at;
	return !(column->flags & COLUMN_NO_ZERO && *ret == 0) &&
	       !(column->flags & COLUMN_NO_NEGATIVE && *ret < 0) &&
	       !(column->flags & COLUMN_NO_MAX && *ret == UINT32_MAX);
}

/* The text of what is no number. NULL: none. */
static const char *get_text(const struct column *column, const void *at, char space[ADDR_STRLEN])
{
	const struct sockaddr *addr = at;

	if (column->type == COLUMN_ADDRESS)
		return addr->sa_family ? addr_to_string(addr, space) : NULL;
	return column->type == COLUMN_PORT_SPACE ? portspace_name(*(const int *)at) :
						   *(const char *const *)at;
}

static void json_array(struct jsonout *json, const struct column *column, const void *at)
{
	const char *const *texts = *(const char *const *const *)at;
	const char *rows = *(const char *const *)at;
	size_t n = ((const size_t *)at)[-1];

	jsonout_open(json, column->key, '[');
	for (size_t i = 0; i < n; i++)
		if (column->type == COLUMN_TEXTS)
			jsonout_string(json, NULL, texts[i]);
		else
			json_row(json, NULL, column->columns, rows + i * column->size);
	jsonout_close(json, ']');
}

static void json_value(struct jsonout *json, const struct column *column, const void *at)
{
	char space[ADDR_STRLEN];
	long long n;

	if (column->json)
		column->json(at, json, column->key);
	else if (column->type == COLUMN_OBJECT)
		json_row(json, column->key, column->columns, at);
	else if (column->type == COLUMN_TEXTS || column->type == COLUMN_OBJECTS)
		json_array(json, column, at);
	else if (column->type == COLUMN_BOOL)
		jsonout_bool(json, column->key,
			     *(const bool *)at != !!(column->flags & COLUMN_NOT));
	else if (!is_number(column))
		jsonout_string(json, column->key, get_text(column, at, space));
	else if (!get_number(column, at, &n))
		jsonout_null(json, column->key);
	else if (column->type == COLUMN_UINT64)
		jsonout_number(json, column->key, (uint64_t)n);
	else
		jsonout_signed(json, column->key, n);
}

void json_members(struct jsonout *json, const struct column *columns, const void *row)
{
	for (; !is_end(columns); columns++)
		if (columns->key)
			json_value(json, columns, value_at(columns, row));
}

void json_row(struct jsonout *json, const char *key, const struct column *columns, const void *row)
{
	if (!row) {
		jsonout_null(json, key);
		return;
	}
	jsonout_open(json, key, '{');
	json_members(json, columns, row);
	jsonout_close(json, '}');
}

void print_json(const struct column *columns, const void *row)
{
	struct jsonout json = { .file = stdout };

	json_row(&json, NULL, columns, row);
	putchar('\n');
}

/* Writes the text of a cell to RET, which is empty. False: out of memory. */
static bool make_cell(const struct column *column, const void *row, char ret[CELL_MAX])
{
	const void *at = value_at(column, row);
	char text[CELL_MAX] = "", space[ADDR_STRLEN];
	FILE *file = fmemopen(text, sizeof(text) - 1, "w");
	long long n;

	if (!file)
		return false;
	if (column->text)
		column->text(at, file);
	else if (!is_number(column))
		fputs(get_text(column, at, space) ?: "", file);
	else if (get_number(column, at, &n))
		fprintf(file, column->type == COLUMN_UINT64 ? "%llu" : "%lld", n);
	fclose(file);
	text_escape(ret, CELL_MAX, text);
	return true;
}

/* Without STRICTWIDTH, the hint of a width does not count for short cells. */
static int flags_of(const struct column *column)
{
	return SCOLS_FL_STRICTWIDTH | (is_number(column) ? SCOLS_FL_RIGHT : 0);
}

/* Adds a line. ROW NULL: that of the headings. */
static bool add_line(struct table *table, const void *row)
{
	struct libscols_line *line = scols_table_new_line(table->scols, NULL);
	const struct column *column = table->columns;
	char cell[CELL_MAX] = "";
	bool good = line;

	for (size_t i = 0; good && !is_end(column); column++) {
		enum colour hue = row && column->colour ? column->colour(row) : COLOUR_NONE;

		if (!column->head)
			continue;
		good = !row || make_cell(column, row, cell);
		if (*cell)
			scols_column_set_flags(scols_table_get_column(table->scols, i),
					       flags_of(column));
		good = good && scols_line_set_data(line, i,
						   !row  ? column->head :
						   *cell ? cell :
							   "-") == 0;
		if (good && hue && *colour(hue))
			good = scols_cell_set_color(scols_line_get_cell(line, i), colour(hue)) == 0;
		i++;
	}
	return good;
}

void table_begin(struct table *ret, const struct column *columns)
{
	bool good;

	*ret = (struct table){ .columns = columns, .scols = scols_new_table() };
	/* The cells are escaped already. */
	good = ret->scols && scols_table_enable_noencoding(ret->scols, 1) == 0 &&
	       scols_table_enable_noheadings(ret->scols, 1) == 0 &&
	       scols_table_enable_colors(ret->scols, 1) == 0 &&
	       scols_table_set_termforce(ret->scols, SCOLS_TERMFORCE_NEVER) == 0 &&
	       scols_table_set_column_separator(ret->scols, "  ") == 0;
	for (; good && !is_end(columns); columns++)
		good = !columns->head ||
		       scols_table_new_column(ret->scols, "", columns->width,
					      flags_of(columns) | (columns->flags & COLUMN_IF_ANY ?
									   SCOLS_FL_HIDDEN :
									   0));
	/* libsmartcols prints no headings without rows. */
	ret->has_failed = !good || !add_line(ret, NULL);
}

void table_add(struct table *table, const void *row)
{
	if (table->json) {
		json_row(table->json, NULL, table->columns, row);
		return;
	}
	table->n_rows++;
	table->has_failed = table->has_failed || !add_line(table, row);
}

/* The widths are known when the table was printed. */
static bool find_widths(struct table *table)
{
	char *text;

	if (scols_table_print_range_to_string(table->scols, NULL, NULL, &text) < 0)
		return false;
	free(text);
	return true;
}

/* The width of all columns before the last one, with the blanks behind them. */
static size_t sum_widths(struct table *table)
{
	size_t last = scols_table_get_ncols(table->scols) - 1, sum = 0;

	for (size_t i = 0; i < last; i++) {
		struct libscols_column *column = scols_table_get_column(table->scols, i);

		if (!scols_column_is_hidden(column))
			sum += scols_column_get_width(column) + 2;
	}
	return sum;
}

/* Cuts the cells of the last column, so that the table fits into the terminal. */
static bool cut_last(struct table *table)
{
	size_t last = scols_table_get_ncols(table->scols) - 1, room, used;
	char *text;

	if (!find_widths(table))
		return false;
	used = sum_widths(table);
	room = used + LAST_MIN > table->width ? LAST_MIN : table->width - used;
	for (size_t i = 0; i < scols_table_get_nlines(table->scols); i++) {
		struct libscols_line *line = scols_table_get_line(table->scols, i);
		const char *cell = scols_cell_get_data(scols_line_get_cell(line, last));

		if (strlen(cell) <= room)
			continue;
		if (asprintf(&text, "%.*s...", (int)room - 3, cell) < 0)
			return false;
		scols_line_refer_data(line, last, text);
	}
	return true;
}

bool table_print(struct table *table, FILE *file)
{
	size_t n = table->has_failed ? 0 : scols_table_get_ncols(table->scols);

	table->has_failed = table->has_failed || (table->width > 0 && !cut_last(table)) ||
			    scols_table_set_stream(table->scols, file) < 0 ||
			    scols_table_print_range(table->scols, NULL, NULL) < 0;
	if (table->has_failed) {
		complain("out of memory");
		return false;
	}
	/* Without it, the last line has no end. */
	putc('\n', file);
	for (size_t i = 0; i < n; i++) {
		struct libscols_column *column = scols_table_get_column(table->scols, i);

		scols_column_set_whint(column, (double)scols_column_get_width(column));
	}
	scols_table_remove_lines(table->scols);
	return true;
}

bool table_end(struct table *table, FILE *file)
{
	bool good = table_print(table, file);

	table_done(table);
	return good;
}

void table_done(struct table *table)
{
	scols_unref_table(table->scols);
}

bool print_rows(const char *key, const struct column *columns, const void *rows, size_t n,
		size_t size, unsigned width)
{
	struct jsonout json = { .file = stdout };
	struct table table = { .columns = columns, .json = &json };

	if (!key) {
		table_begin(&table, columns);
		table.width = width;
	} else {
		jsonout_open(&json, NULL, '{');
		jsonout_open(&json, key, '[');
	}
	for (size_t i = 0; i < n; i++)
		table_add(&table, (const char *)rows + i * size);
	if (!key)
		return table_end(&table, stdout);
	jsonout_close(&json, ']');
	jsonout_close(&json, '}');
	putchar('\n');
	return true;
}
