/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Splits a source into logical lines of tokens. A line whose last character is '\' is continued by the next one;
 * '#' begins a comment, which ends with its physical line.
 */

#include <stdbool.h>
#include <stddef.h>

#include "policy/source.h"

struct diag;

enum token_type {
	TOKEN_END, /* end of the logical line; its position is right behind the last token */
	TOKEN_WORD,
	TOKEN_STRING, /* TEXT is what is between the quotes, with the escapes */
	TOKEN_EQUALS,
	TOKEN_OPEN, /* { */
	TOKEN_CLOSE, /* } */
	TOKEN_COMMA,
};

struct token {
	enum token_type type;
	const char *text; /* in the source; does not end in NUL */
	size_t len;
	struct source_line line; /* the physical one */
	unsigned column; /* from 1, in bytes */
};

struct lexer {
	struct source *source;
	struct diag *diag;
	struct token *tokens; /* of the current logical line, TOKEN_END last */
	size_t n_tokens;
	size_t n_allocated;
};

void lexer_init(struct lexer *lexer, struct source *source, struct diag *diag);
void lexer_done(struct lexer *lexer);
/*
 * Reads the next logical line that is not empty. Returns 1, 0 at the end, -ENOMEM, or -EBADMSG after a complaint
 * about the line; the next call then continues behind that line.
 */
int lexer_next(struct lexer *lexer);

bool token_is(const struct token *token, const char *word);
/* The text of a string without its escapes. RET holds at least LEN + 1 bytes of the token. */
void token_unescape(const struct token *token, char *ret);
