/* SPDX-License-Identifier: BSD-2-Clause */
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

void text_make_printable(char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n ?: 1) {
		n = text_printable(text + i, len - i);
		if (n == 0)
			text[i] = '?';
	}
}
