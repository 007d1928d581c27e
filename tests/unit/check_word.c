/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "proto/word.h"
#include "tests/unit/unit.h"

static const char *guess(const char *word)
{
	static const char *const candidates[] = { "session", "listen", "accept", "ps", "Sessions" };
	struct word_guess g = { .word = word, .len = strlen(word) };

	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++)
		word_guess(&g, candidates[i]);
	return g.best;
}

START_TEST(near_words_are_guessed)
{
	ck_assert_str_eq(guess("sesion"), "session");
	ck_assert_str_eq(guess("lsiten"), "listen");
	ck_assert_str_eq(guess("ACCEPT"), "accept");
	ck_assert_str_eq(guess("sessions"), "Sessions");
	ck_assert_str_eq(guess("pss"), "ps");
	ck_assert_str_eq(guess("lists"), "listen");
	ck_assert_ptr_null(guess("xs"));
	ck_assert_ptr_null(guess("xy"));
	ck_assert_ptr_null(guess(""));
	ck_assert_ptr_null(guess("connect"));
	ck_assert_ptr_null(guess("accccccccccccccccccccccccccccccccccccccccccccccccccpt"));
}
END_TEST

START_TEST(words_as_near_as_the_best_are_counted)
{
	static const char *const candidates[] = { "lisp", "lists", "last" };
	struct word_guess g = { .word = "list=", .len = 4 };

	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++)
		word_guess(&g, candidates[i]);
	ck_assert_str_eq(g.best, "lisp");
	ck_assert_uint_eq(g.distance, 1);
	ck_assert_uint_eq(g.n_best, 3);

	word_guess(&g, "List");
	ck_assert_str_eq(g.best, "List");
	ck_assert_uint_eq(g.distance, 0);
	ck_assert_uint_eq(g.n_best, 1);
}
END_TEST

UNIT_MAIN("word", NULL, NULL, near_words_are_guessed, words_as_near_as_the_best_are_counted)
