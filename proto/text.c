/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "proto/text.h"

size_t text_character(const char *text, size_t len, uint32_t *ret_code)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *c = (const unsigned char *)text;
	uint32_t code;
	size_t n;

	if (!len)
		return 0;
	if (c[0] < 0x80) {
		*ret_code = c[0];
		return 1;
	}
	if ((c[0] & 0xe0) == 0xc0)
		n = 2;
	else if ((c[0] & 0xf0) == 0xe0)
		n = 3;
	else if ((c[0] & 0xf8) == 0xf0)
		n = 4;
	else
		return 0;
	if (len < n)
		return 0;

	code = c[0] & (0xff >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (c[i] & 0x3f);
	}

	/* Overlong forms, surrogates and code points beyond U+10FFFF are not UTF-8. */
	if (code < smallest[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret_code = code;
	return n;
}

size_t text_printable(const char *text, size_t len)
{
	uint32_t code;
	size_t n = text_character(text, len, &code);

	/* Terminals interpret U+0080..U+009F as control sequences. */
	if (n == 0 || code < ' ' || (code >= 0x7f && code < 0xa0))
		return 0;
	return n;
}

void text_escape(char *ret, size_t size, const char *text)
{
	size_t len = strlen(text), at = 0, n, step;
	char one[16];

	for (size_t i = 0; i < len; i += n ?: 1) {
		uint32_t code = (unsigned char)text[i];

		n = text_character(text + i, len - i, &code);
		one[0] = (char)code;
		one[1] = 0;
		if (code < ' ' || code > '~')
			snprintf(one, sizeof(one),
				 n < 2          ? "\\x%02x" :
				 code <= 0xffff ? "\\u%04x" :
						  "\\U%08x",
				 (unsigned)code);
		step = strlen(one);
		if (at + step >= size)
			break;
		memcpy(ret + at, one, step);
		at += step;
	}
	ret[at] = 0;
}

void text_make_printable(char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n ?: 1) {
		n = text_printable(text + i, len - i);
		if (n == 0)
			text[i] = '?';
	}
}

bool text_next_line(const char *text, size_t size, struct text_line *line)
{
	size_t at = line->text ? (size_t)(line->text - text) + line->len + 1 : 0;
	const char *newline;

	if (at >= size)
		return false;
	newline = memchr(text + at, '\n', size - at);
	line->text = text + at;
	line->len = newline ? (size_t)(newline - line->text) : size - at;
	line->number++;
	return true;
}

const char *text_line_fault(const struct text_line *line, size_t *ret_at)
{
	size_t n;

	*ret_at = TEXT_LINE_MAX;
	_Static_assert(TEXT_LINE_MAX == 4096, "the message says it");
	if (line->len > TEXT_LINE_MAX)
		return "the line is longer than 4096 bytes";

	for (size_t i = 0; i < line->len; i += n) {
		unsigned char c = line->text[i];

		*ret_at = i;
		n = text_printable(line->text + i, line->len - i);
		if (n == 3 && !memcmp(line->text + i, "\xef\xbb\xbf", 3))
			return "byte order mark (save the file as UTF-8 without one)";
		if (c == '\t')
			n = 1;
		else if (c == '\r')
			return "carriage return (lines must end with a newline alone)";
		else if (c == '\0')
			return "NUL byte";
		else if (!n)
			return c < 0x80 ? "control character" : "this is not printable UTF-8";
	}
	return NULL;
}
