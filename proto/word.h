/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Similarity of words, for "did you mean ...?". */

#include <stddef.h>
#include <stdint.h>

#define WORD_STRANGE SIZE_MAX

/*
 * How many letters must be replaced, added, left out or swapped with their neighbour to get from A to B, ignoring
 * case. WORD_STRANGE if the words are not alike: more than two edits, edits of at least half of the longer word's
 * letters, or a word that is longer than 32 bytes.
 */
size_t word_distance(const char *a, size_t a_len, const char *b, size_t b_len);
