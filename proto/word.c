/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdint.h>
#include <string.h>

#include "proto/word.h"

#define WORD_LEN 32 /* longer words have no similar words */
#define WORD_EDITS 2
#define WORD_STRANGE SIZE_MAX

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* Both words have at most WORD_LEN bytes. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t d[WORD_LEN + 1][WORD_LEN + 1]; /* of the first I letters of A and the first J of B */

	for (size_t i = 0; i <= a_len; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= b_len; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= a_len; i++)
		for (size_t j = 1; j <= b_len; j++) {
			char x = lower(a[i - 1]), y = lower(b[j - 1]);

			d[i][j] = smaller(d[i - 1][j - 1] + (x != y),
					  smaller(d[i][j - 1], d[i - 1][j]) + 1);
			if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]))
				d[i][j] = smaller(d[i][j], d[i - 2][j - 2] + 1);
		}
	return d[a_len][b_len];
}

/* WORD_STRANGE: the words are not similar. */
static size_t word_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t d;

	if (a_len > WORD_LEN || b_len > WORD_LEN)
		return WORD_STRANGE;
	d = distance(a, a_len, b, b_len);
	if (d > WORD_EDITS || (2 * d >= a_len && 2 * d >= b_len))
		return WORD_STRANGE;
	return d;
}

void word_guess(struct word_guess *guess, const char *candidate)
{
	size_t d = word_distance(guess->word, guess->len, candidate, strlen(candidate));

	if (d == WORD_STRANGE)
		return;
	if (guess->best && d >= guess->distance) {
		guess->n_best += d == guess->distance;
		return;
	}

	guess->n_best = 1;
	guess->best = candidate;
	guess->distance = d;
}
