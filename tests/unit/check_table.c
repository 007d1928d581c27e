/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "ctl/table.h"
#include "tests/unit/unit.h"

/* What rdmabrokerctl prints about rows, whose texts others have written. */

struct row {
	const char *name, *note;
	uint64_t n;
};

static const struct column columns[] = {
	{ "NAME", "name", COLUMN_OF(struct row, name) },
	{ "N", "n", COLUMN_OF(struct row, n), COLUMN_NO_ZERO },
	{ "NOTE", "note", COLUMN_OF(struct row, note), COLUMN_IF_ANY },
	{ NULL },
};

/* Returns what is printed of the ROWS, which end with one without a name. TABLE NULL: a table of its own. */
static const char *print(struct table *table, const struct row *rows, unsigned width)
{
	static char text[4096];
	FILE *file = fmemopen(text, sizeof(text), "w");
	struct table own;

	ck_assert_ptr_nonnull(file);
	if (!table)
		table_begin(&own, columns, NULL, NULL);
	own.width = width;
	for (; rows->name; rows++)
		table_add(table ?: &own, rows);
	if (table)
		table_print(table, file);
	else
		table_end(&own, file);
	fclose(file);
	return text;
}

START_TEST(columns_are_aligned)
{
	ck_assert_str_eq(
		print(NULL,
		      (const struct row[]){
			      { "plain", "x", 7 }, { "a", "longer", 10 }, { "", NULL, 1 }, {} },
		      0),
		"NAME    N  NOTE\n"
		"plain   7  x\n"
		"a      10  longer\n"
		"-       1  -\n");
}
END_TEST

/* Nor does it hide, or change the direction: it is ASCII, and a line stays one. */
START_TEST(no_text_controls_the_terminal)
{
	ck_assert_str_eq(print(NULL,
			       (const struct row[]){ { "\033[31m", "tab\tdel\x7f", 1 },
						     { "\xc2\x9b"
						       "2J",
						       "two\nlines", 2 },
						     { "a\xff\xc3", "\xe6\x97", 3 },
						     { "\\x1b", "\xed\xa0\x80", 4 },
						     { "\xef\xbb\xbfping", "\xe2\x80\xaegnip", 5 },
						     { "\xf0\x9f\x98\x80", "\xc3\xa4", 6 },
						     {} },
			       0),
			 "NAME        N  NOTE\n"
			 "\\x1b[31m    1  tab\\x09del\\x7f\n"
			 "\\u009b2J    2  two\\x0alines\n"
			 "a\\xff\\xc3   3  \\xe6\\x97\n"
			 "\\x1b        4  \\xed\\xa0\\x80\n"
			 "\\ufeffping  5  \\u202egnip\n"
			 "\\U0001f600  6  \\u00e4\n");
}
END_TEST

START_TEST(columns_never_get_narrower)
{
	struct table table;

	table_begin(&table, columns, NULL, NULL);
	ck_assert_str_eq(print(&table, (const struct row[]){ {} }, 0), "NAME  N\n");
	ck_assert_str_eq(print(&table, (const struct row[]){ { "\xe6\x97\xa5", NULL, 1 }, {} }, 0),
			 "\\u65e5  1\n");
	ck_assert_str_eq(print(&table, (const struct row[]){ { "a", NULL, 22 }, {} }, 0),
			 "a       22\n");
	ck_assert_str_eq(print(&table, (const struct row[]){ { "b", "n", 3 }, {} }, 0),
			 "b        3  n\n");
	table_done(&table);
}
END_TEST

START_TEST(the_last_column_is_cut_to_the_terminal)
{
	ck_assert_str_eq(print(NULL,
			       (const struct row[]){ { "a", "0123456789012345", 1 },
						     { "b", "01234567890123456", 2 },
						     { "c", "0123456789\xe6\x97\xa5", 3 },
						     {} },
			       25),
			 "NAME  N  NOTE\n"
			 "a     1  0123456789012345\n"
			 "b     2  0123456789012...\n"
			 "c     3  0123456789\\u65e5\n");
}
END_TEST

START_TEST(json_has_the_same_rows)
{
	const struct row row = { "\033\xff\"\xe2\x80\xae\xf0\x9f\x98\x80\x7f", NULL, 0 };
	struct jsonout json = {};
	char text[256] = "";

	json.file = fmemopen(text, sizeof(text), "w");
	ck_assert_ptr_nonnull(json.file);
	json_row(&json, NULL, columns, &row);
	json_row(&json, NULL, columns, NULL);
	fclose(json.file);
	ck_assert_str_eq(
		text, "{\"name\": \"\\u001b\\ufffd\\\"\\u202e\\ud83d\\ude00\\u007f\", \"n\": null, "
		      "\"note\": null}, null");
}
END_TEST

UNIT_MAIN("table", NULL, NULL, columns_are_aligned, no_text_controls_the_terminal,
	  columns_never_get_narrower, the_last_column_is_cut_to_the_terminal,
	  json_has_the_same_rows)
