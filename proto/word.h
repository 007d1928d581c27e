/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* How alike two words are, for "did you mean ...?". */

#include <stddef.h>
#include <stdint.h>

#define WORD_STRANGE SIZE_MAX

/*
 * How many letters must be replaced, added, left out or swapped with their neighbour, upper and lower
 * case held equal; or WORD_STRANGE where nobody would take one for the other: more than two edits, or
 * half of the letters.
 */
size_t word_distance(const char *a, size_t a_len, const char *b, size_t b_len);
