/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "proto/status.h"

START_TEST(pack_and_unpack)
{
	uint8_t buf[REFUSAL_MAX] = { 0 };
	struct refusal refusal;
	size_t len = refusal_pack(buf, REFUSAL_MAX, REFUSAL_BUSY, 1234567, "not a storage host");

	ck_assert_uint_eq(len, REFUSAL_HEADER_LEN + strlen("not a storage host"));
	/* The transport pads private data, so more bytes arrive than were sent. */
	ck_assert(refusal_unpack(&refusal, buf, sizeof(buf)));
	ck_assert_int_eq(refusal.code, REFUSAL_BUSY);
	ck_assert_uint_eq(refusal.retry_after_ms, 1234567);
	ck_assert_str_eq(refusal.text, "not a storage host");
}
END_TEST

START_TEST(a_long_text_is_cut_between_characters)
{
	uint8_t buf[REFUSAL_MAX];
	struct refusal refusal;
	char text[400] = "";

	for (int i = 0; i < 100; i++)
		strcat(text,
		       "\xe2\x82\xac"); /* the euro sign has 3 bytes, and 136 is no multiple of 3 */
	ck_assert_uint_eq(refusal_pack(buf, REFUSAL_MAX, REFUSAL_DENIED, 0, text),
			  REFUSAL_HEADER_LEN + 135);
	ck_assert(refusal_unpack(&refusal, buf, REFUSAL_HEADER_LEN + 135));
	ck_assert_uint_eq(strlen(refusal.text), 135);
}
END_TEST

START_TEST(invalid_refusals)
{
	uint8_t buf[REFUSAL_MAX];
	struct refusal refusal;
	size_t len = refusal_pack(buf, REFUSAL_MAX, REFUSAL_DENIED, 0, "text");

	for (size_t i = 0; i < len; i++)
		ck_assert(!refusal_unpack(&refusal, buf, i));
	ck_assert(!refusal_unpack(&refusal, NULL, 0));
	buf[4] = 2; /* another version */
	ck_assert(!refusal_unpack(&refusal, buf, len));
	buf[4] = REFUSAL_VERSION;
	buf[6] = 255; /* a length past the end of the buffer */
	ck_assert(!refusal_unpack(&refusal, buf, sizeof(buf)));
	buf[6] = 4;
	buf[0] = 'r';
	ck_assert(!refusal_unpack(&refusal, buf, len));
}
END_TEST

START_TEST(control_characters_are_not_printed)
{
	uint8_t buf[REFUSAL_MAX];
	struct refusal refusal;
	size_t len = refusal_pack(buf, REFUSAL_MAX, REFUSAL_DENIED, 0, "a\033[31mb\n");

	ck_assert(refusal_unpack(&refusal, buf, len));
	ck_assert_str_eq(refusal.text, "a?[31mb?");
	/* U+009B also begins a control sequence. Incomplete and invalid UTF-8 sequences are replaced, too. */
	len = refusal_pack(buf, REFUSAL_MAX, REFUSAL_DENIED, 0,
			   "\xc2\x9b"
			   "31m \xc3\xa4 \xff \xc3");
	ck_assert(refusal_unpack(&refusal, buf, len));
	ck_assert_str_eq(refusal.text, "??31m \xc3\xa4 ? ?");
}
END_TEST

START_TEST(every_status_has_an_errno)
{
	for (int s = STATUS_INTERNAL; s < _STATUS_MAX; s++)
		ck_assert_int_gt(status_to_errno((enum status)s), 0);
	ck_assert_int_eq(status_to_errno(STATUS_OK), 0);
}
END_TEST

UNIT_MAIN("status", NULL, NULL, pack_and_unpack, a_long_text_is_cut_between_characters,
	  invalid_refusals, control_characters_are_not_printed, every_status_has_an_errno)
