/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Who runs this program, for notes that others read later. It is what they say themselves: it proves nothing. */

#define AUTHOR_MAX 384

/* Writes "USER@HOST", or "USER@HOST (as root)" if USER became root by sudo. All characters are printable. */
void author_text(char ret[AUTHOR_MAX]);
