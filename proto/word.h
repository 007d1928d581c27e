/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Finds the candidate that is most similar to a word, for "did you mean ...?". */

#include <stddef.h>

/*
 * Set WORD and LEN, and the other members to 0. Call word_guess() for each candidate, which must outlive the guess.
 * Then read BEST; NULL: no candidate is similar.
 *
 * An edit replaces, adds or drops a letter, or swaps two neighbours; case is ignored. A candidate is similar if
 * DISTANCE is at most 2, and less than half the length of the longer word. A word of more than 32 bytes has no
 * similar words.
 */
struct word_guess {
	const char *word; /* need not end in NUL */
	size_t len;
	const char *best;
	size_t distance; /* number of edits that turn WORD into BEST */
	/* number of candidates with this DISTANCE; BEST is the first of them */
	size_t n_best;
};

void word_guess(struct word_guess *guess, const char *candidate);
