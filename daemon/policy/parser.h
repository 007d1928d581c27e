/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The state of the parser, and the functions by which the words of the language read their values and complain
 * about them. The grammar itself is in grammar.h.
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

	/* for the source that is being read: */
	const char *file; /* name of the file; lives as long as the policy */
	const struct token *token; /* the next token */
	bool is_line_bad; /* the current line has an error, so it does not become a rule */

	/* for all sources that were read so far: */
	bool has_failed; /* a line was bad */
	bool is_full; /* there was one rule too many, so no further line is read */
};

/* Initializes PARSER. When all sources are read, call set_done(). */
void parser_init(struct parser *parser, struct policy *policy, enum policy_names names,
		 struct diag *diag);

/*
 * Returns the next token, and moves on to the one after it. TOKEN_END is the last token: it is returned again by each
 * further call.
 */
const struct token *parser_take(struct parser *parser);
/* Complains about TOKEN, so that its line does not become a rule. Returns -EBADMSG. */
int parser_complain(struct parser *parser, const struct token *token, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * As parser_complain(), about an unknown word. WHAT: what kind of word it is, for example "operation". BEST:
 * the known word that was probably meant; WORDS: all known words, which are listed if there is no BEST. Both
 * may be NULL.
 */
int parser_complain_unknown(struct parser *parser, const struct token *token, const char *what,
			    const char *best, const char *words);
/*
 * As parser_complain(), with the message TAKES, which describes the valid values. If TOKEN is a word, and one of
 * the candidates offered to GUESS is similar to it, and more so than all others, "did you mean ...?" follows.
 */
int parser_complain_value(struct parser *parser, const struct token *token, const char *takes,
			  const struct word_guess *guess);
/* Reads a number from MIN to MAX. WHAT: the word whose value it is, for complaints. */
int parser_take_number(struct parser *parser, const char *what, uint32_t min, uint32_t max,
		       uint32_t *ret);
/* True if all of TEXT is one decimal number without leading zeros that fits into 32 bits. */
bool parser_is_number(const char *text, size_t len, uint32_t *ret);

/* set.c */
int set_parse(struct parser *parser);
/*
 * Reads a prefix, an address or @SET. *ret is NULL after a complaint that still allows the rest of the line
 * to be parsed.
 */
int set_take(struct parser *parser, const char *what, const struct prefix_set **ret);
/* Frees the tree in which sets are found by name. */
void set_done(struct parser *parser);
