/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "policy/parser.h"
#include "proto/word.h"
#include "util/diag.h"

void parser_init(struct parser *parser, struct policy *policy, enum policy_names names,
		 struct diag *diag)
{
	*parser = (struct parser){ .policy = policy, .names = names, .diag = diag };
}

const struct token *parser_take(struct parser *parser)
{
	const struct token *token = parser->token;

	if (token->type != TOKEN_END)
		parser->token++;
	return token;
}

int parser_complain(struct parser *parser, const struct token *token, const char *fmt, ...)
{
	char message[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);

	diag_add(parser->diag, parser->file, token->line.number, token->column, token->line.text,
		 token->line.len, "%s", message);
	parser->is_line_bad = true;
	return -EBADMSG;
}

/* True if TOKEN begins as a comment does in other languages. */
static bool is_foreign_comment(const struct token *token)
{
	static const char *const signs[] = { "//", "/*", "--", ";" };

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (token->len >= strlen(signs[i]) &&
		    memcmp(token->text, signs[i], strlen(signs[i])) == 0)
			return true;
	return false;
}

int parser_complain_unknown(struct parser *parser, const struct token *token, const char *what,
			    const char *best, const char *words)
{
	/* Truncate the word so that the rest of the message fits. */
	int len = token->len < 64 ? token->len : 64;

	if (is_foreign_comment(token))
		return parser_complain(parser, token,
				       "unknown %s '%.*s'; a comment begins with '#'", what, len,
				       token->text);
	if (best)
		return parser_complain(parser, token, "unknown %s '%.*s', did you mean '%s'?", what,
				       len, token->text, best);
	return parser_complain(parser, token, "unknown %s '%.*s'%s%s", what, len, token->text,
			       words ? ": it must be one of " : "", words ? words : "");
}

int parser_complain_value(struct parser *parser, const struct token *token, const char *takes,
			  const struct word_guess *guess)
{
	if (token->type != TOKEN_WORD || !guess->best || guess->n_best > 1)
		return parser_complain(parser, token, "%s", takes);
	return parser_complain(parser, token, "%s, did you mean '%s'?", takes, guess->best);
}

int parser_take_word(struct parser *parser, const char *const *names, const char *takes)
{
	const struct token *token = parser_take(parser);
	struct word_guess guess = { .word = token->text, .len = token->len };

	for (int i = 0; names[i]; i++) {
		if (token_is(token, names[i]))
			return i;
		word_guess(&guess, names[i]);
	}
	return parser_complain_value(parser, token, takes, &guess);
}

bool parser_is_number(const char *text, size_t len, uint32_t *ret)
{
	uint64_t n = 0;

	if (!len || len > 10 || (text[0] == '0' && len > 1))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		n = n * 10 + (text[i] - '0');
	}
	if (n > UINT32_MAX)
		return false;

	*ret = n;
	return true;
}

int parser_take_number(struct parser *parser, const char *what, uint32_t min, uint32_t max,
		       uint32_t *ret)
{
	const struct token *token = parser_take(parser);
	uint32_t n;

	if (token->type != TOKEN_WORD || !parser_is_number(token->text, token->len, &n) ||
	    n < min || n > max)
		return parser_complain(parser, token, "'%s' takes a number from %u to %u", what,
				       min, max);

	*ret = n;
	return 0;
}
