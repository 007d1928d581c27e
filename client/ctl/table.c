/* SPDX-License-Identifier: BSD-2-Clause */
#include <libsmartcols/libsmartcols.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
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

	if (column->get)
		return column->get(at, space);
	if (column->type == COLUMN_ADDRESS)
		return addr->sa_family ? addr_to_string(addr, space) : NULL;
	return column->type == COLUMN_PORT_SPACE ? portspace_name(*(const int *)at) :
						   *(const char *const *)at;
}

void json_texts(struct jsonout *json, const char *key, const char *const *texts, size_t n)
{
	jsonout_open(json, key, '[');
	for (size_t i = 0; i < n; i++)
		jsonout_string(json, NULL, texts[i]);
	jsonout_close(json, ']');
}

static void json_objects(struct jsonout *json, const struct column *column, const char *rows,
			 size_t n)
{
	jsonout_open(json, column->key, '[');
	for (size_t i = 0; i < n; i++)
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
	else if (column->type == COLUMN_TEXTS)
		json_texts(json, column->key, *(const char *const *const *)at,
			   ((const size_t *)at)[-1]);
	else if (column->type == COLUMN_OBJECTS)
		json_objects(json, column, *(const char *const *)at, ((const size_t *)at)[-1]);
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

void json_begin(struct jsonout *ret)
{
	*ret = (struct jsonout){ .file = stdout };
	jsonout_open(ret, NULL, '{');
}

void table_json_pkey(const void *at, struct jsonout *json, const char *key)
{
	const uint16_t *pkey = at;
	char text[8];

	snprintf(text, sizeof(text), "0x%04x", *pkey);
	jsonout_string(json, key, *pkey ? text : NULL);
}

void json_end(struct jsonout *json)
{
	jsonout_close(json, '}');
	putchar('\n');
}

void print_json(const struct column *columns, const void *row)
{
	struct jsonout json;

	json_begin(&json);
	json_members(&json, columns, row);
	json_end(&json);
}

/* libsmartcols fails only if memory is used up. */
static void must(int r)
{
	allocated(r < 0 ? NULL : &r);
}

/* Writes the text of a cell to RET, which is empty. */
static void make_cell(const struct column *column, const void *row, char ret[CELL_MAX])
{
	const void *at = value_at(column, row);
	char text[CELL_MAX] = "", space[ADDR_STRLEN];
	FILE *file = allocated(fmemopen(text, sizeof(text) - 1, "w"));
	long long n;

	if (column->text)
		column->text(at, file);
	else if (!is_number(column))
		fputs(get_text(column, at, space) ?: "", file);
	else if (get_number(column, at, &n))
		fprintf(file, column->type == COLUMN_UINT64 ? "%llu" : "%lld", n);
	fclose(file);
	text_escape(ret, CELL_MAX, text);
}

/* Without STRICTWIDTH, the hint of a width does not count for short cells. */
static int flags_of(const struct column *column)
{
	return SCOLS_FL_STRICTWIDTH | (is_number(column) ? SCOLS_FL_RIGHT : 0);
}

static enum colour colour_of(const struct column *column, const void *row)
{
	long long n;

	if (column->colour)
		return column->colour(row);
	return column->hue && get_number(column, value_at(column, row), &n) && n != 0 ?
		       column->hue :
		       COLOUR_NONE;
}

/* Adds a line. ROW NULL: that of the headings. */
static void add_line(struct table *table, const void *row)
{
	struct libscols_line *line = allocated(scols_table_new_line(table->scols, NULL));
	const struct column *column = table->columns;
	char cell[CELL_MAX] = "";

	for (size_t i = 0; !is_end(column); column++) {
		enum colour hue = row ? colour_of(column, row) : COLOUR_NONE;

		if (!column->head)
			continue;
		if (row)
			make_cell(column, row, cell);
		if (*cell)
			scols_column_set_flags(scols_table_get_column(table->scols, i),
					       flags_of(column));
		must(scols_line_set_data(line, i, !row ? column->head : *cell ? cell : "-"));
		if (hue && *colour(hue))
			must(scols_cell_set_color(scols_line_get_cell(line, i), colour(hue)));
		i++;
	}
}

void table_begin(struct table *ret, const struct column *columns, struct jsonout *json,
		 const char *key)
{
	*ret = (struct table){ .columns = columns, .json = json };
	if (json) {
		jsonout_open(json, key, '[');
		return;
	}
	ret->scols = allocated(scols_new_table());
	/* The cells are escaped already. */
	scols_table_enable_noencoding(ret->scols, 1);
	scols_table_enable_noheadings(ret->scols, 1);
	scols_table_enable_colors(ret->scols, 1);
	scols_table_set_termforce(ret->scols, SCOLS_TERMFORCE_NEVER);
	must(scols_table_set_column_separator(ret->scols, "  "));
	for (; !is_end(columns); columns++)
		if (columns->head)
			allocated(scols_table_new_column(
				ret->scols, "", columns->width,
				flags_of(columns) |
					(columns->flags & COLUMN_IF_ANY ? SCOLS_FL_HIDDEN : 0)));
	/* libsmartcols prints no headings without rows. */
	add_line(ret, NULL);
}

void table_add(struct table *table, const void *row)
{
	table->n_rows++;
	if (table->json)
		json_row(table->json, NULL, table->columns, row);
	else
		add_line(table, row);
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
static void cut_last(struct table *table)
{
	size_t last = scols_table_get_ncols(table->scols) - 1, room, used;
	char *text;

	/* The widths are known when the table was printed. */
	must(scols_table_print_range_to_string(table->scols, NULL, NULL, &text));
	free(text);
	used = sum_widths(table);
	room = used + LAST_MIN > table->width ? LAST_MIN : table->width - used;
	for (size_t i = 0; i < scols_table_get_nlines(table->scols); i++) {
		struct libscols_line *line = scols_table_get_line(table->scols, i);
		const char *cell = scols_cell_get_data(scols_line_get_cell(line, last));

		if (strlen(cell) <= room)
			continue;
		must(asprintf(&text, "%.*s...", (int)room - 3, cell));
		scols_line_refer_data(line, last, text);
	}
}

void table_print(struct table *table, FILE *file)
{
	if (table->width > 0)
		cut_last(table);
	must(scols_table_set_stream(table->scols, file));
	must(scols_table_print_range(table->scols, NULL, NULL));
	/* Without it, the last line has no end. */
	putc('\n', file);
	for (size_t i = 0; i < scols_table_get_ncols(table->scols); i++) {
		struct libscols_column *column = scols_table_get_column(table->scols, i);

		scols_column_set_whint(column, (double)scols_column_get_width(column));
	}
	scols_table_remove_lines(table->scols);
}

void table_end(struct table *table, FILE *file)
{
	if (table->json)
		jsonout_close(table->json, ']');
	else
		table_print(table, file);
	table_done(table);
}

void table_done(struct table *table)
{
	scols_unref_table(table->scols);
}

void print_rows(const char *key, const struct column *columns, const void *rows, size_t n,
		size_t size, unsigned width)
{
	struct jsonout json;
	struct table table;

	if (key)
		json_begin(&json);
	table_begin(&table, columns, key ? &json : NULL, key);
	table.width = width;
	for (size_t i = 0; i < n; i++)
		table_add(&table, (const char *)rows + i * size);
	table_end(&table, stdout);
	if (key)
		json_end(&json);
}
