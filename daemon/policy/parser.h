/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The state of the parser, and helpers for the functions that read the values of words. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/lexer.h"
#include "policy/policy.h"

struct diag;
struct policy_word;
struct prefix_set;
struct word_guess;

struct parser {
	struct policy *policy;
	struct diag *diag;
	enum policy_names names;
	bool is_site; /* of the current source: it is a site's, which must not make admins */
	bool is_restriction; /* the rules are those of a restriction, see policy_load_restriction() */
	void *sets; /* tsearch() tree of struct set, by name */

	/* for the current source: */
	const char *file; /* lives as long as the policy */
	const struct token *token; /* the next token */
	const struct policy_word *word; /* whose value is read */
	bool is_line_bad; /* the current line has an error, so it does not become a rule */

	/* for all sources that were read so far: */
	bool has_failed; /* a line has an error */
	bool is_full; /* there is one rule too many, so no further line is read */
};

/* After the last source, call set_done(). */
void parser_init(struct parser *parser, struct policy *policy, enum policy_names names,
		 struct diag *diag);

/* Returns the next token and advances, but not past TOKEN_END. */
const struct token *parser_take(struct parser *parser);
/* Complains about TOKEN, and marks its line as bad. Returns -EBADMSG. */
int parser_complain(struct parser *parser, const struct token *token, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * As parser_complain(), about an unknown word. WHAT: its kind, for example "operation". BEST: the known word that was
 * probably meant; NULL: none. WORDS: all known words, listed if BEST is NULL; can be NULL.
 */
int parser_complain_unknown(struct parser *parser, const struct token *token, const char *what,
			    const char *best, const char *words);
/*
 * As parser_complain(), with TAKES, which describes the valid values. If TOKEN is a word and GUESS has a single best
 * candidate, "did you mean ...?" follows.
 */
int parser_complain_value(struct parser *parser, const struct token *token, const char *takes,
			  const struct word_guess *guess);
/*
 * Reads one of NAMES, which end with NULL. Returns its position; or -EBADMSG after a complaint as by
 * parser_complain_value().
 */
int parser_take_word(struct parser *parser, const char *const *names, const char *takes);
/* WHAT: the word whose value the number is, for complaints. */
int parser_take_number(struct parser *parser, const char *what, uint32_t min, uint32_t max,
		       uint32_t *ret);
/* True if all of TEXT is one decimal number without leading zeros that fits into 32 bits. */
bool parser_is_number(const char *text, size_t len, uint32_t *ret);

/* grammar.c */
/*
 * Parses SOURCE, and adds its rules to the policy. Parsing goes on after an error, so that one run shows all errors.
 * Returns 0, -ENOMEM, or -EBADMSG if this source or an earlier one has errors. Can be called again after -EBADMSG.
 */
int grammar_read(struct parser *parser, struct source *source);
/* Reads one of the first N operations; with N above _POLICY_OPERATION_MAX, "any" too. Returns 0 or -EBADMSG. */
int grammar_take_operation(struct parser *parser, unsigned n, enum policy_operation *ret);

/* set.c */
int set_parse(struct parser *parser);
/* Reads a prefix, an address or @SET. *ret is NULL if the value is wrong, but the rest of the line can be parsed. */
int set_take(struct parser *parser, const char *what, const struct prefix_set **ret);
/* Frees the tree in which sets are found by name. */
void set_done(struct parser *parser);
