/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Finds the known word that is most similar to an unknown one, for "did you mean ...?". */

#include <stddef.h>

/*
 * Set WORD and LEN, and the other members to 0. Call word_guess() for each candidate, and then read BEST, which is
 * NULL if no candidate is similar. A candidate is similar if at most two letters, and fewer than half of the longer
 * word's letters, must be replaced, added, left out or swapped with their neighbour, ignoring case. A word of more
 * than 32 bytes is similar to no other. Candidates must outlive the guess.
 */
struct word_guess {
	const char *word; /* need not end in NUL */
	size_t len;
	const char *best;
	size_t distance; /* number of edits (see above) that turn WORD into BEST */
	/* number of candidates that are as similar as BEST, which is the first of them */
	size_t n_best;
};

void word_guess(struct word_guess *guess, const char *candidate);
