/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Checks for text from others before it is shown: it must not contain control sequences for a terminal, the
 * journal or a program that reads JSON.
 */

#include <stddef.h>
#include <stdint.h>

/* The number of bytes of the UTF-8 character (RFC 3629) at TEXT; *RET_CODE is its code point. 0: not UTF-8. */
size_t text_character(const char *text, size_t len, uint32_t *ret_code);
/* The same without the code point, and 0 also for a control character. */
size_t text_printable(const char *text, size_t len);
