/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Checks untrusted text before it is parsed: it must be UTF-8 without control characters. The lines of files that an admin
 * wrote are such text. Escapes text before it is shown: others can choose it, and characters that are invisible, or change
 * the direction, hide what it is. And copies text.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Returns the length of the UTF-8 character (RFC 3629) at TEXT, in bytes, and its code point in *RET_CODE; 0: not
 * UTF-8.
 */
size_t text_character(const char *text, size_t len, uint32_t *ret_code);
/* As text_character(), without the code point; 0 also for a control character. */
size_t text_printable(const char *text, size_t len);
/* The room that a text of LEN bytes needs in text_escape(), with the NUL. */
#define TEXT_ESCAPED(len) (4 * (len) + 1)
/*
 * Copies TEXT to RET, as printable ASCII: for whatever a person reads, on a terminal, in the journal or in a file. Another
 * character becomes \u202e, or \U0001f600; a control character, or a byte that is not UTF-8, \x1b. What has no room is cut,
 * but not within an escape. A backslash stays as it is: names of units have them.
 */
void text_escape(char *ret, size_t size, const char *text);
/* Replaces each of the LEN bytes of TEXT that is not part of a printable character by '?'. */
void text_make_printable(char *text, size_t len);

/* Copies FROM, or as much of it as the SIZE bytes of TO have room for, with a NUL at its end. */
static inline void text_copy(char *to, size_t size, const char *from)
{
	size_t len = strlen(from);

	if (len > size - 1)
		len = size - 1;
	memcpy(to, from, len);
	to[len] = 0;
}

#define TEXT_LINE_MAX 4096 /* bytes, without the newline */

struct text_line {
	const char *text; /* without the newline; does not end in NUL */
	size_t len;
	unsigned number; /* from 1 */
};

/* Goes on from LINE to the next line of TEXT; from {}, to the first one. False: LINE was the last, and stays as it is. */
bool text_next_line(const char *text, size_t size, struct text_line *line);
/*
 * NULL: LINE is not too long, is UTF-8 without a byte order mark, and has no control characters except tabs. Otherwise the
 * caller must not parse LINE: returns what is wrong at *RET_AT.
 */
const char *text_line_fault(const struct text_line *line, size_t *ret_at);
