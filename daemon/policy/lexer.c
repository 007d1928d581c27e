/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/lexer.h"
#include "proto/text.h"
#include "util/diag.h"

void lexer_init(struct lexer *lexer, struct source *source, struct diag *diag)
{
	*lexer = (struct lexer){ .source = source, .diag = diag };
}

void lexer_done(struct lexer *lexer)
{
	free(lexer->tokens);
	*lexer = (struct lexer){};
}

static int complain(struct lexer *lexer, const struct text_line *line, size_t at, const char *what)
{
	diag_add(lexer->diag, source_name(lexer->source), line->number, at + 1, line->text,
		 line->len, "%s", what);
	return -EBADMSG;
}

static int add_token(struct lexer *lexer, enum token_type type, const struct text_line *line,
		     size_t from, size_t to)
{
	struct token *token;

	if (lexer->n_tokens == lexer->n_allocated) {
		size_t n = lexer->n_allocated ? lexer->n_allocated * 2 : 32;
		struct token *grown = reallocarray(lexer->tokens, n, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		lexer->tokens = grown;
		lexer->n_allocated = n;
	}

	token = &lexer->tokens[lexer->n_tokens++];
	*token = (struct token){
		.type = type,
		.text = line->text + from,
		.len = to - from,
		.line = *line,
		.column = from + 1,
	};
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_rest_blank(const struct text_line *line, size_t at)
{
	while (at < line->len && is_blank(line->text[at]))
		at++;
	return at == line->len;
}

static int lex_string(struct lexer *lexer, const struct text_line *line, size_t *at)
{
	size_t from = *at, i;
	int r;

	for (i = from + 1; i < line->len && line->text[i] != '"'; i++) {
		if (line->text[i] != '\\')
			continue;
		i++;
		if (i == line->len)
			break;
		if (line->text[i] != '"' && line->text[i] != '\\')
			return complain(lexer, line, i - 1,
					"only \\\" and \\\\ can be escaped in a string");
	}
	if (i >= line->len)
		return complain(lexer, line, from, "the string does not end on its line");

	r = add_token(lexer, TOKEN_STRING, line, from + 1, i);
	if (r < 0)
		return r;
	lexer->tokens[lexer->n_tokens - 1].column = from + 1;
	*at = i + 1;
	return 0;
}

/*
 * Characters that word processors and web pages put in the place of ASCII characters. They look alike, or cannot be
 * seen at all, so an error about the whole word would not help.
 */
static const struct lookalike {
	uint32_t first, last;
	const char *name;
	bool is_visible;
	const char *remedy;
} lookalikes[] = {
	{ 0x00a0, 0x00a0, "a no-break space", false, "write a blank" },
	{ 0x00ab, 0x00ab, "a typographic quote", true, "write \"" },
	{ 0x00ad, 0x00ad, "a soft hyphen", false, "remove it, or write -" },
	{ 0x00bb, 0x00bb, "a typographic quote", true, "write \"" },
	{ 0x1680, 0x1680, "a typographic space", false, "write a blank" },
	{ 0x2000, 0x200a, "a typographic space", false, "write a blank" },
	{ 0x200b, 0x200f, "an invisible character", false, "remove it" },
	{ 0x2010, 0x2010, "a typographic hyphen", true, "write -" },
	{ 0x2011, 0x2011, "a no-break hyphen", true, "write -" },
	{ 0x2012, 0x2012, "a typographic dash", true, "write -" },
	{ 0x2013, 0x2013, "an en dash", true, "write -" },
	{ 0x2014, 0x2014, "an em dash", true, "write -" },
	{ 0x2015, 0x2015, "a typographic dash", true, "write -" },
	{ 0x2018, 0x201f, "a typographic quote", true, "write \"" },
	{ 0x2028, 0x2029, "a typographic line break", false, "begin a new line" },
	{ 0x202a, 0x202e, "an invisible character", false, "remove it" },
	{ 0x202f, 0x202f, "a narrow no-break space", false, "write a blank" },
	{ 0x2032, 0x2036, "a prime", true, "write \"" },
	{ 0x2039, 0x203a, "a typographic quote", true, "write \"" },
	{ 0x205f, 0x205f, "a typographic space", false, "write a blank" },
	{ 0x2060, 0x2064, "an invisible character", false, "remove it" },
	{ 0x2212, 0x2212, "a minus sign", true, "write -" },
	{ 0x3000, 0x3000, "a wide space", false, "write a blank" },
	{ 0xff02, 0xff02, "a wide quote", true, "write \"" },
	{ 0xff0c, 0xff0c, "a wide comma", true, "write ," },
	{ 0xff0d, 0xff0d, "a wide hyphen", true, "write -" },
	{ 0xff1d, 0xff1d, "a wide equals sign", true, "write =" },
};

/* Complains if a character that looks like another begins at AT. Otherwise *RET_LEN is its length in bytes. */
static int check_character(struct lexer *lexer, const struct text_line *line, size_t at,
			   size_t *ret_len)
{
	uint32_t code = 0;
	char what[128];

	*ret_len = 1;
	if (!(line->text[at] & 0x80))
		return 0;
	*ret_len = text_character(line->text + at, line->len - at, &code);
	for (size_t i = 0; i < sizeof(lookalikes) / sizeof(lookalikes[0]); i++) {
		const struct lookalike *known = &lookalikes[i];

		if (code < known->first || code > known->last)
			continue;
		snprintf(what, sizeof(what), "this is %s%s%.*s (U+%04X): %s", known->name,
			 known->is_visible ? ", " : "", known->is_visible ? (int)*ret_len : 0,
			 line->text + at, (unsigned)code, known->remedy);
		return complain(lexer, line, at, what);
	}
	return 0;
}

static int lex_word(struct lexer *lexer, const struct text_line *line, size_t *at)
{
	size_t from = *at, i, n;
	int r;

	for (i = from; i < line->len; i += n) {
		char c = line->text[i];

		r = check_character(lexer, line, i, &n);
		if (r < 0)
			return r;
		if (is_blank(c) || strchr("\"{},=", c))
			break;
		/* "user bob#1" could mean a name that contains '#', or a name and a comment. */
		if (c == '#')
			return complain(lexer, line, i,
					"'#' begins a comment only after a blank; put a name that "
					"contains '#' in double quotes");
		if (c == '\\' && is_rest_blank(line, i + 1))
			break;
	}

	*at = i;
	return add_token(lexer, TOKEN_WORD, line, from, i);
}

/* Splits a physical line into tokens. Returns 1 if the next line continues this one. */
static int lex_line(struct lexer *lexer, const struct text_line *line)
{
	static const enum token_type signs[] = {
		['{'] = TOKEN_OPEN,
		['}'] = TOKEN_CLOSE,
		[','] = TOKEN_COMMA,
		['='] = TOKEN_EQUALS,
	};
	size_t i = 0, at;
	const char *fault = text_line_fault(line, &at);
	int r;

	if (fault)
		return complain(lexer, line, at, fault);

	while (i < line->len) {
		switch (line->text[i]) {
		case ' ':
		case '\t':
			i++;
			continue;
		case '#':
			return 0;
		case '"':
			r = lex_string(lexer, line, &i);
			break;
		case '{':
		case '}':
		case ',':
		case '=':
			r = add_token(lexer, signs[(unsigned char)line->text[i]], line, i, i + 1);
			i++;
			break;
		case '\\':
			if (i + 1 == line->len)
				return 1;
			if (is_rest_blank(line, i + 1))
				return complain(lexer, line, i,
						"'\\' must be the last character of its line");
			/* fall through */
		default:
			r = lex_word(lexer, line, &i);
			break;
		}
		if (r < 0)
			return r;
	}

	return 0;
}

static int add_end(struct lexer *lexer)
{
	const struct token *last = &lexer->tokens[lexer->n_tokens - 1];
	struct text_line line = last->line;
	size_t at = last->text - line.text + last->len + (last->type == TOKEN_STRING);

	return add_token(lexer, TOKEN_END, &line, at, at);
}

/* True if LINE ends in a backslash, or in one with blanks after it: an error, but clearly meant as a continuation. */
static bool ends_in_backslash(const struct text_line *line)
{
	size_t len = line->len;

	while (len && is_blank(line->text[len - 1]))
		len--;
	return len && line->text[len - 1] == '\\';
}

int lexer_next(struct lexer *lexer)
{
	struct text_line line = {};
	bool goes_on = false;
	int r;

	lexer->n_tokens = 0;
	while (source_next(lexer->source, &line)) {
		r = lex_line(lexer, &line);
		if (r == 1) {
			goes_on = true;
			continue;
		}
		goes_on = false;
		if (r == -EBADMSG) {
			/* Skip the lines that continue this line, because they would only cause more complaints. */
			while (ends_in_backslash(&line) && source_next(lexer->source, &line))
				;
			return r;
		}
		if (r < 0)
			return r;
		if (!lexer->n_tokens)
			continue;

		r = add_end(lexer);
		return r < 0 ? r : 1;
	}

	if (goes_on)
		return complain(lexer, &line, line.len - 1,
				"the file ends here, but this '\\' continues the line");
	return 0;
}

bool token_is(const struct token *token, const char *word)
{
	return token->type == TOKEN_WORD && token->len == strlen(word) &&
	       !memcmp(token->text, word, token->len);
}

void token_unescape(const struct token *token, char *ret)
{
	for (size_t i = 0; i < token->len; i++) {
		if (token->type == TOKEN_STRING && token->text[i] == '\\')
			i++;
		*ret++ = token->text[i];
	}
	*ret = '\0';
}
