/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "tests/unit/journald.h"
#include "tests/unit/unit.h"
#include "util/log.h"

/* The log while journald does not read. */

#define LINES 20000 /* more than the socket and the queue hold */
#define LINE_LEN 200

/* Returns the MESSAGE of the next entry; NULL: no entry came within the timeout. */
static const char *next_message(void)
{
	char *text = next_entry();

	if (!text)
		return NULL;
	text = strstr(text, "MESSAGE=");
	ck_assert_ptr_nonnull(text);
	text[strcspn(text, "\n")] = 0;
	return text + strlen("MESSAGE=");
}

START_TEST(a_journal_that_does_not_read)
{
	unsigned n_read = 0, n_dropped = 0;
	const char *text;

	if (!take_place_of_journald())
		return;
	log_init();
	for (unsigned i = 0; i < LINES; i++)
		log_info("line %u %*s", i, LINE_LEN, "");
	/* At this point all lines are logged, and none has been read. */
	while (n_read + n_dropped < LINES && (text = next_message())) {
		if (sscanf(text, "(%u lines before the next one were dropped", &n_dropped) == 1)
			continue;
		/* The lines come in order, and each gap is reported. */
		ck_assert_uint_eq((unsigned)atoi(text + strlen("line ")), n_read);
		n_read++;
	}
	ck_assert_uint_gt(n_read, 0);
	ck_assert_uint_gt(n_dropped, 0);
	ck_assert_uint_eq(n_read + n_dropped, LINES);
	/* Later lines arrive as before. */
	log_info("the next one");
	ck_assert_str_eq(next_message(), "the next one");
	log_end();
}
END_TEST

START_TEST(the_last_line_arrives)
{
	if (!take_place_of_journald())
		return;
	log_init();
	log_info("one");
	log_info("two");
	log_end();
	ck_assert_str_eq(next_message(), "one");
	ck_assert_str_eq(next_message(), "two");
}
END_TEST

UNIT_MAIN("journal", NULL, NULL, a_journal_that_does_not_read, the_last_line_arrives)
