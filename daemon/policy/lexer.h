/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Splits a source into logical lines of tokens. A comment begins with a '#' where a token could begin, and ends with
 * its physical line. A '\' at the end of a line without a comment continues the line.
 */

#include <stdbool.h>
#include <stddef.h>

#include "policy/source.h"

struct diag;

enum token_type {
	TOKEN_END, /* end of the logical line; its position is that after the last token */
	TOKEN_WORD,
	TOKEN_STRING, /* TEXT is the text between the quotes, with its escapes */
	TOKEN_EQUALS,
	TOKEN_OPEN, /* { */
	TOKEN_CLOSE, /* } */
	TOKEN_COMMA,
};

struct token {
	enum token_type type;
	const char *text; /* points into the source; does not end in NUL */
	size_t len;
	struct text_line line; /* the physical line of the token */
	unsigned column; /* from 1, in bytes */
};

struct lexer {
	struct source *source;
	struct diag *diag;
	/* the tokens of the current logical line; the last one is TOKEN_END */
	struct token *tokens;
	size_t n_tokens;
	size_t n_allocated;
};

void lexer_init(struct lexer *lexer, struct source *source, struct diag *diag);
void lexer_done(struct lexer *lexer);
/*
 * Reads the next logical line that has tokens. Returns 1; 0: there are no more lines; -ENOMEM; or -EBADMSG after a
 * complaint about the line. After -EBADMSG the next call continues with the line after it.
 */
int lexer_next(struct lexer *lexer);

bool token_is(const struct token *token, const char *word);
/*
 * Copies TOKEN's text to RET, without escapes if TOKEN is a string, and adds a NUL. RET has space for
 * TOKEN->len + 1 bytes.
 */
void token_unescape(const struct token *token, char *ret);
