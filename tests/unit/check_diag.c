/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "proto/text.h"
#include "tests/unit/unit.h"
#include "util/diag.h"

static struct diag *diag;
static char *printed;

static void set_up(void)
{
	ck_assert_int_eq(diag_new(&diag), 0);
}

static void tear_down(void)
{
	diag = diag_free(diag);
	free(printed);
	printed = NULL;
}

static const char *print(void)
{
	size_t size;
	FILE *f;

	free(printed);
	f = open_memstream(&printed, &size);
	ck_assert_ptr_nonnull(f);
	diag_print(diag, f);
	fclose(f);
	return printed;
}

START_TEST(no_complaint)
{
	ck_assert_uint_eq(diag->errors.n, 0);
	ck_assert_ptr_null(complaints_at(&diag->errors, 0));
	ck_assert_str_eq(print(), "");
	ck_assert_ptr_null(diag_free(NULL));
}
END_TEST

START_TEST(a_message_names_the_known_part_of_its_place)
{
	diag_add(diag, "f", 3, 7, NULL, 0, "number %d", 1);
	diag_add(diag, "f", 3, 0, NULL, 0, "number %d", 2);
	diag_add(diag, "f", 0, 0, NULL, 0, "number %d", 3);
	diag_add(diag, NULL, 0, 0, NULL, 0, "number %d", 4);
	ck_assert_str_eq(complaints_at(&diag->errors, 0), "f:3:7: number 1");
	ck_assert_str_eq(complaints_at(&diag->errors, 1), "f:3: number 2");
	ck_assert_str_eq(complaints_at(&diag->errors, 2), "f: number 3");
	ck_assert_str_eq(complaints_at(&diag->errors, 3), "number 4");
	ck_assert_ptr_null(complaints_at(&diag->errors, 4));
}
END_TEST

START_TEST(a_complaint_has_parts)
{
	const struct complaint *kept = diag->errors.kept;

	diag_add(diag, "f:1: x", 3, 7, "text\n", 5, "number %d", 1);
	diag_add(diag, NULL, 0, 0, NULL, 0, "a\tb");
	ck_assert_uint_eq(diag->errors.n_kept, 2);
	ck_assert_str_eq(kept[0].file, "f:1: x");
	ck_assert_uint_eq(kept[0].line, 3);
	ck_assert_uint_eq(kept[0].column, 7);
	ck_assert_str_eq(kept[0].text, "number 1");
	ck_assert_ptr_null(kept[1].file);
	ck_assert_uint_eq(kept[1].line, 0);
	ck_assert_str_eq(kept[1].text, "a?b");
}
END_TEST

START_TEST(the_caret_stands_below_its_column)
{
	const char *text = "allow sesion user root\nnot this line";

	diag_add(diag, "f", 1, 7, text, strlen(text), "m");
	ck_assert_str_eq(print(), "f:1:7: m\n"
				  "    allow sesion user root\n"
				  "          ^\n");
}
END_TEST

START_TEST(the_caret_follows_tabs_and_wide_bytes)
{
	/*
	 * The second character has two bytes but one column. The caret's line repeats the tabs, so that the caret
	 * stands below its character.
	 */
	const char *text = "\t\xc3\xa4\tx";

	diag_add(diag, "f", 1, 5, text, strlen(text), "m");
	ck_assert_str_eq(print(), "f:1:5: m\n"
				  "    \t\xc3\xa4\tx\n"
				  "    \t \t^\n");
}
END_TEST

START_TEST(the_caret_can_stand_behind_the_line)
{
	diag_add(diag, "f", 1, 4, "abc", 3, "m");
	ck_assert_str_eq(print(), "f:1:4: m\n    abc\n       ^\n");
}
END_TEST

START_TEST(a_line_without_column_has_no_caret)
{
	diag_add(diag, "f", 1, 0, "abc", 3, "m");
	ck_assert_str_eq(print(), "f:1: m\n    abc\n");
}
END_TEST

START_TEST(long_lines_are_cut_around_the_caret)
{
	char text[1001];
	const char *caret, *line;

	memset(text, 'a', 1000);
	text[1000] = '\0';
	text[799] = 'X';
	diag_add(diag, "f", 1, 800, text, 1000, "m");
	line = strchr(print(), '\n') + 1;
	caret = strchr(line, '\n') + 1;
	ck_assert_uint_lt(caret - line, 140);
	ck_assert_str_eq(strchr(line, '\n') - 3, strstr(line, "...\n"));
	ck_assert_int_eq(line[strcspn(caret, "^")], 'X');
}
END_TEST

START_TEST(long_lines_of_long_characters_are_cut_between_them)
{
	char text[1201] = "";

	for (int i = 0; i < 400; i++)
		strcat(text, "\xe2\x82\xac");
	for (unsigned column = 1; column <= 1201; column += 7) {
		diag_add(diag, "f", 1, column, text, 1200, "m");
		ck_assert_ptr_null(strchr(print(), '?'));
		tear_down();
		set_up();
	}
}
END_TEST

START_TEST(control_characters_are_replaced)
{
	const char *text = "a\x1b[2J\xff\xc2\x9b";

	diag_add(diag, "\x1b]0;f", 1, 1, text, strlen(text), "bad '%s'", text);
	ck_assert_str_eq(print(), "?]0;f:1:1: bad 'a?[2J?\?\?'\n    a?[2J?\?\?\n    ^\n");
}
END_TEST

START_TEST(twenty_complaints_are_kept)
{
	for (int i = 0; i < 23; i++)
		diag_add(diag, "f", 0, 0, NULL, 0, "%d", i);
	ck_assert_uint_eq(diag->errors.n, 23);
	ck_assert_str_eq(complaints_at(&diag->errors, 19), "f: 19");
	ck_assert_ptr_null(complaints_at(&diag->errors, 20));
	ck_assert_str_eq(strstr(print(), "f: 19\n"), "f: 19\nand 3 more\n");
}
END_TEST

START_TEST(printable_characters)
{
	static const struct {
		const char *text;
		size_t len, n;
	} cases[] = {
		{ "a", 1, 1 },
		{ "", 0, 0 },
		{ "\0", 1, 0 },
		{ "\t", 1, 0 },
		{ "\x7f", 1, 0 },
		{ "\xc3\xa4", 2, 2 },
		{ "\xc3\xa4", 1, 0 },
		{ "\xc3(", 2, 0 },
		{ "\x80", 1, 0 },
		{ "\xc1\x81", 2, 0 }, /* overlong encoding */
		{ "\xe0\x80\xaf", 3, 0 },
		{ "\xc2\x85", 2, 0 }, /* a C1 control character */
		{ "\xe2\x82\xac", 3, 3 },
		{ "\xed\xa0\x80", 3, 0 }, /* a surrogate */
		{ "\xf0\x9f\x98\x80", 4, 4 },
		{ "\xf4\x90\x80\x80", 4, 0 }, /* beyond U+10FFFF */
		{ "\xff", 1, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_msg(text_printable(cases[i].text, cases[i].len) == cases[i].n, "case %zu",
			      i);
}
END_TEST

/* What is cut is not cut within an escape. */
START_TEST(text_is_escaped)
{
	static const char text[] = "a\\x2d\n\xe2\x80\xae\xf0\x9f\x98\x80\xff";
	static const char whole[] = "a\\x2d\\x0a\\u202e\\U0001f600\\xff";
	static const struct {
		size_t size, len;
	} cuts[] = { { 1, 0 },   { 5, 4 },   { 6, 5 },   { 9, 5 },   { 10, 9 }, { 15, 9 },
		     { 16, 15 }, { 25, 15 }, { 26, 25 }, { 29, 25 }, { 30, 29 } };
	char ret[64];

	text_escape(ret, sizeof(ret), text);
	ck_assert_str_eq(ret, whole);
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		text_escape(ret, cuts[i].size, text);
		ck_assert_msg(strlen(ret) == cuts[i].len && strncmp(ret, whole, cuts[i].len) == 0,
			      "size %zu: \"%s\"", cuts[i].size, ret);
	}
	/* No byte needs more. */
	for (int byte = 1; byte < 256; byte++) {
		text_escape(ret, sizeof(ret), (const char[]){ (char)byte, 0 });
		ck_assert_uint_lt(strlen(ret), TEXT_ESCAPED(1));
	}
}
END_TEST

static const char *print_warnings(void)
{
	size_t size;
	FILE *f;

	free(printed);
	f = open_memstream(&printed, &size);
	ck_assert_ptr_nonnull(f);
	diag_print_warnings(diag, f);
	fclose(f);
	return printed;
}

START_TEST(warnings_are_no_errors)
{
	const struct complaint *first = &diag->warnings.kept[0];

	diag_add(diag, "f", 1, 0, NULL, 0, "an error");
	ck_assert_str_eq(print_warnings(), "");
	diag_warn(diag, "f", 2, 3, "text", 4, "a %s", "b");
	diag_warn(diag, NULL, 0, 0, NULL, 0, "c");
	ck_assert_uint_eq(diag->errors.n, 1);
	ck_assert_str_eq(print(), "f:1: an error\n");
	ck_assert_uint_eq(diag->warnings.n, 2);
	ck_assert_str_eq(complaints_at(&diag->warnings, 0), "f:2:3: a b");
	ck_assert_ptr_null(complaints_at(&diag->warnings, 2));
	ck_assert_str_eq(first->file, "f");
	ck_assert_uint_eq(first->line, 2);
	ck_assert_str_eq(first->text, "a b");
	ck_assert_str_eq(print_warnings(), "f:2:3: warning: a b\n    text\n      ^\nwarning: c\n");
	for (int i = 0; i < 19; i++)
		diag_warn(diag, NULL, 0, 0, NULL, 0, "d");
	ck_assert_ptr_nonnull(strstr(print_warnings(), "\nand 1 more warning\n"));
	diag_warn(diag, NULL, 0, 0, NULL, 0, "d");
	ck_assert_ptr_nonnull(strstr(print_warnings(), "\nand 2 more warnings\n"));
}
END_TEST

UNIT_MAIN("diag", set_up, tear_down, no_complaint, a_message_names_the_known_part_of_its_place,
	  a_complaint_has_parts, the_caret_stands_below_its_column,
	  the_caret_follows_tabs_and_wide_bytes, the_caret_can_stand_behind_the_line,
	  a_line_without_column_has_no_caret, long_lines_are_cut_around_the_caret,
	  long_lines_of_long_characters_are_cut_between_them, control_characters_are_replaced,
	  twenty_complaints_are_kept, printable_characters, text_is_escaped, warnings_are_no_errors)
