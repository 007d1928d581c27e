/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Checks untrusted text before it is shown: it must be UTF-8 without control characters. */

#include <stddef.h>
#include <stdint.h>

/*
 * Returns the length of the UTF-8 character (RFC 3629) at TEXT, in bytes, and its code point in *RET_CODE; 0: not
 * UTF-8.
 */
size_t text_character(const char *text, size_t len, uint32_t *ret_code);
/* As text_character(), without the code point; 0 also for a control character. */
size_t text_printable(const char *text, size_t len);
/* Replaces each of the LEN bytes of TEXT that is not part of a printable character by '?'. */
void text_make_printable(char *text, size_t len);
