/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* For "did you mean ...?": finds the known word that is most similar to one that is not known. */

#include <stddef.h>

/*
 * Set WORD and LEN, call word_guess() for each candidate, then read BEST. NULL: no candidate is similar. A candidate
 * is similar if at most two letters, and fewer than half of the longer word's, must be replaced, added, left out or
 * swapped with their neighbour, ignoring case. Words of more than 32 bytes are similar to none. Candidates must
 * outlive the guess.
 */
struct word_guess {
	const char *word; /* need not end in NUL */
	size_t len;
	const char *best;
	size_t distance; /* of BEST, in such edits */
	size_t n_best; /* how many candidates are as near as BEST, which is the first of them */
};

void word_guess(struct word_guess *guess, const char *candidate);
