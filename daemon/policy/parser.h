/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The state of parsing, and what the parse functions of the words need: tokens, complaints, numbers. What is parsed,
 * and in which order, is in grammar.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/lexer.h"
#include "policy/policy.h"

struct diag;
struct prefix_set;
struct word_guess;

struct parser {
	struct policy *policy;
	struct diag *diag;
	enum policy_names names;
	void *sets; /* tsearch() tree of struct set, by name */

	/* of the source that is being read */
	const char *file; /* lives as long as the policy */
	const struct token *token; /* the next one */
	bool is_line_bad;
	bool has_failed;
	bool is_full; /* no more rules fit */
};

/* When all sources are read, call set_done(). */
void parser_init(struct parser *parser, struct policy *policy, enum policy_names names,
		 struct diag *diag);

/* For the parse functions of the words: returns the next token and moves behind it, but never behind TOKEN_END. */
const struct token *parser_take(struct parser *parser);
/* Complain about TOKEN. The line does not become a rule. Returns -EBADMSG. */
int parser_complain(struct parser *parser, const struct token *token, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * The same of a word that is not known, an operation for example. BEST: the known word that was probably meant; WORDS:
 * all known words, listed if there is no BEST. Both may be NULL.
 */
int parser_complain_unknown(struct parser *parser, const struct token *token, const char *what,
			    const char *best, const char *words);
/*
 * Like parser_complain(), with "did you mean ...?" at the end if one of the candidates offered to GUESS is nearer
 * than all others.
 */
int parser_complain_value(struct parser *parser, const struct token *token, const char *takes,
			  const struct word_guess *guess);
/* Takes a number from MIN to MAX. WHAT: the word whose value it is. */
int parser_take_number(struct parser *parser, const char *what, uint32_t min, uint32_t max,
		       uint32_t *ret);
/* False unless all of TEXT is one decimal number without leading zeros that fits 32 bits. */
bool parser_is_number(const char *text, size_t len, uint32_t *ret);

/* set.c */
int set_parse(struct parser *parser);
/*
 * Takes a prefix, an address or @SET. *ret is NULL after a complaint that still allows the rest of the line to be
 * parsed.
 */
int set_take(struct parser *parser, const char *what, const struct prefix_set **ret);
/* Forgets the sets. */
void set_done(struct parser *parser);
