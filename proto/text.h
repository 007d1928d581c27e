/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What others say, before it is shown: a terminal, the journal or a program that reads JSON must not be
 * steered by it.
 */

#include <stddef.h>
#include <stdint.h>

/* The bytes of the UTF-8 character (RFC 3629) at TEXT, and which it is. 0: it is none. */
size_t text_character(const char *text, size_t len, uint32_t *ret_code);
/* The same, but 0 for a control character too. */
size_t text_printable(const char *text, size_t len);
