/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parser.h"
#include "policy/rule/prefix.h"
#include "policy/rules.h"
#include "proto/word.h"

/*
 * Sets: lists of addresses and networks with a name, which rules can use in place of addresses. Here they are parsed;
 * prefix.c looks addresses up in them.
 */

#define SET_NAME_MAX 64

struct set {
	char name[SET_NAME_MAX + 1];
	const struct prefix_set *prefixes; /* NULL: the definition has an error */
	unsigned line;
	const char *file;
};

static int compare(const void *a, const void *b)
{
	const struct set *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static bool is_name(const char *text, size_t len)
{
	if (!len || len > SET_NAME_MAX || (text[0] >= '0' && text[0] <= '9') || text[0] == '-')
		return false;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
		    c != '_' && c != '-')
			return false;
	}
	return true;
}

static struct set *find(struct parser *parser, const char *name, size_t len)
{
	struct set key = {}, **found;

	if (!is_name(name, len))
		return NULL;
	memcpy(key.name, name, len);
	found = tfind(&key, &parser->sets, compare);
	return found ? *found : NULL;
}

static void offer(const void *node, VISIT which, void *closure)
{
	const struct set *set = *(struct set *const *)node;

	if (which == postorder || which == leaf)
		word_guess(closure, set->name);
}

/* NULL: no set has a name that is similar to NAME. */
static const char *guess_name(const struct parser *parser, const char *name, size_t len)
{
	struct word_guess guess = { .word = name, .len = len };

	twalk_r(parser->sets, offer, &guess);
	return guess.best;
}

static int complain_no_address(struct parser *parser, const struct token *token, const char *what)
{
	static const char takes[] = "takes an IP address, a prefix, gid:GID or @SET";
	struct set *set;

	if (token->type != TOKEN_WORD)
		return parser_complain(parser, token, "%s %s", what, takes);
	set = find(parser, token->text, token->len);
	if (set)
		return parser_complain(parser, token, "%s %s, did you mean '@%s'?", what, takes,
				       set->name);
	/* A scope, as in fe80::1%eth0. */
	if (memchr(token->text, '%', token->len))
		return parser_complain(parser, token,
				       "%s %s; leave out %%INTERFACE, which no rule looks at", what,
				       takes);
	for (size_t i = 0; i < token->len; i++)
		if (!strchr("0123456789abcdefABCDEF.:/", token->text[i]) &&
		    strncmp(token->text, "gid:", 4) != 0)
			return parser_complain(parser, token, "%s %s; host names are not looked up",
					       what, takes);
	return parser_complain(parser, token, "%s %s", what, takes);
}

static void complain_no_set(struct parser *parser, const struct token *token)
{
	const char *best = guess_name(parser, token->text + 1, token->len - 1);

	if (best)
		parser_complain(parser, token,
				"no set of this name is defined above, did you mean '@%s'?", best);
	else
		parser_complain(parser, token, "no set of this name is defined above");
}

static int set_new(struct parser *parser, const struct token *token, const struct prefix *prefixes,
		   size_t n, const struct prefix_set **ret)
{
	struct prefix_set *set;

	if (n > POLICY_PREFIXES_MAX - parser->policy->n_prefixes)
		return parser_complain(parser, token, "more than %u prefixes in all sets together",
				       POLICY_PREFIXES_MAX);

	set = policy_alloc(parser->policy, sizeof(*set) + n * sizeof(set->prefixes[0]));
	if (!set)
		return -ENOMEM;
	memcpy(set->prefixes, prefixes, n * sizeof(set->prefixes[0]));
	set->n = n;
	parser->policy->n_prefixes += n;
	*ret = set;
	return 0;
}

/*
 * Reads a prefix, an address or @SET, into *ret_prefix or *ret_set. Returns 0 and stores nothing if the value is
 * wrong, but the rest of the line can be parsed.
 */
static int take_member(struct parser *parser, const char *what, struct prefix *ret_prefix,
		       const struct prefix_set **ret_set)
{
	const struct token *token = parser_take(parser);
	char string[PREFIX_STRING_MAX];
	struct prefix prefix;
	struct set *set;

	if (token->type == TOKEN_WORD && token->text[0] == '@') {
		set = find(parser, token->text + 1, token->len - 1);
		if (!set)
			complain_no_set(parser, token);
		else if (!set->prefixes)
			/* The set's definition has caused a complaint already. */
			parser->is_line_bad = true;
		else
			*ret_set = set->prefixes;
		return 0;
	}

	switch (token->type == TOKEN_WORD ? prefix_parse(&prefix, token->text, token->len) :
					    PREFIX_NO_ADDRESS) {
	case PREFIX_NO_ADDRESS:
		return complain_no_address(parser, token, what);
	case PREFIX_BAD_LENGTH:
		parser_complain(parser, token, "the prefix length must be from 0 to %d",
				memchr(token->text, ':', token->len) ? 128 : 32);
		return 0;
	case PREFIX_HOST_BITS:
		parser_complain(parser, token, "bits after the prefix are set, did you mean %s?",
				prefix_to_string(&prefix, string));
		return 0;
	case PREFIX_OK:
		*ret_prefix = prefix;
		return 0;
	}
	return 0;
}

int set_take(struct parser *parser, const char *what, const struct prefix_set **ret)
{
	const struct token *token = parser->token;
	const struct prefix_set *set = NULL;
	struct prefix prefix = {};
	int r;

	r = take_member(parser, what, &prefix, &set);
	if (r < 0)
		return r;

	if (prefix.family) {
		r = set_new(parser, token, &prefix, 1, &set);
		if (r < 0)
			return r;
	}
	if (parser->token->type == TOKEN_COMMA)
		return parser_complain(parser, parser->token,
				       "%s takes one value; for several, define a set", what);
	*ret = set;
	return 0;
}

struct members {
	struct prefix *prefixes;
	size_t n;
	size_t n_allocated;
};

static int add_members(struct parser *parser, const struct token *token, struct members *members,
		       const struct prefix *prefixes, size_t n)
{
	size_t n_allocated = members->n_allocated ? members->n_allocated : 16;
	struct prefix *grown;

	if (n > POLICY_PREFIXES_MAX - members->n)
		return parser_complain(parser, token, "more than %u prefixes in one set",
				       POLICY_PREFIXES_MAX);

	while (n_allocated - members->n < n)
		n_allocated *= 2;
	if (n_allocated != members->n_allocated) {
		grown = reallocarray(members->prefixes, n_allocated, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		members->prefixes = grown;
		members->n_allocated = n_allocated;
	}

	memcpy(members->prefixes + members->n, prefixes, n * sizeof(*prefixes));
	members->n += n;
	return 0;
}

/* Reads the members of a set up to the closing brace. */
static int take_members(struct parser *parser, struct members *members)
{
	const struct prefix_set *set;
	const struct token *token;
	struct prefix prefix;
	int r = 0;

	if (parser->token->type == TOKEN_CLOSE)
		return parser_complain(parser, parser->token, "the set is empty");

	do {
		token = parser->token;
		prefix.family = 0;
		set = NULL;
		r = take_member(parser, "a set", &prefix, &set);
		if (r == 0 && set)
			r = add_members(parser, token, members, set->prefixes, set->n);
		else if (r == 0 && prefix.family)
			r = add_members(parser, token, members, &prefix, 1);
		if (r < 0)
			return r;
		token = parser_take(parser);
	} while (token->type == TOKEN_COMMA);

	if (token->type == TOKEN_END)
		return parser_complain(parser, token,
				       "expected '}' ('\\' at the end of a line continues it)");
	if (token->type != TOKEN_CLOSE)
		return parser_complain(parser, token, "expected ',' or '}'");
	return 0;
}

static int parse_definition(struct parser *parser, const struct token *name,
			    const struct prefix_set **ret)
{
	struct members members = {};
	const struct token *token;
	int r;

	token = parser_take(parser);
	if (token->type != TOKEN_EQUALS)
		return parser_complain(parser, token, "expected '='");
	token = parser_take(parser);
	if (token->type != TOKEN_OPEN)
		return parser_complain(parser, token, "expected '{'");

	r = take_members(parser, &members);
	if (r < 0)
		goto out;
	if (parser->token->type != TOKEN_END) {
		r = parser_complain(parser, parser->token, "nothing may follow the set");
		goto out;
	}
	if (parser->is_line_bad)
		goto out;

	members.n = prefix_normalise(members.prefixes, members.n);
	r = set_new(parser, name, members.prefixes, members.n, ret);
out:
	free(members.prefixes);
	return r;
}

int set_parse(struct parser *parser)
{
	const struct token *name = parser_take(parser);
	struct set *set;
	int r;

	if (name->type == TOKEN_WORD && name->text[0] == '@' &&
	    is_name(name->text + 1, name->len - 1))
		return parser_complain(parser, name,
				       "write the set's name without '@' where the set is defined; "
				       "'@name' is how a rule uses the set");
	if (name->type != TOKEN_WORD || !is_name(name->text, name->len))
		return parser_complain(parser, name,
				       "a set's name has 1 to %u letters, digits, '_' and '-', and "
				       "begins with a letter or '_'",
				       SET_NAME_MAX);
	set = find(parser, name->text, name->len);
	if (set)
		return parser_complain(parser, name, "this set is already defined in %s:%u",
				       set->file, set->line);

	set = policy_alloc(parser->policy, sizeof(*set));
	if (!set)
		return -ENOMEM;
	memcpy(set->name, name->text, name->len);
	set->file = parser->file;
	set->line = name->line.number;

	/* Add the set even if its definition has an error, to avoid a complaint at each use. */
	r = parse_definition(parser, name, &set->prefixes);
	if (!tsearch(set, &parser->sets, compare))
		return -ENOMEM;
	return r;
}

void set_done(struct parser *parser)
{
	/*
	 * The policy owns the sets, so free only the tree's nodes. A node begins with the pointer that was given to
	 * tsearch().
	 */
	while (parser->sets)
		tdelete(*(struct set *const *)parser->sets, &parser->sets, compare);
}
