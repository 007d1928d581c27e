/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "policy/parser.h"
#include "policy/rules.h"
#include "policy/words.h"
#include "proto/names.h"
#include "proto/word.h"

const char *policy_operation_to_string(enum policy_operation operation)
{
	return operation < _POLICY_OPERATION_MAX ? operation_names[operation] : "any";
}

/* What other languages call a word of this one. The two need not be similar. */
struct synonym {
	const char *word;
	const char *meant;
};

static const struct synonym actions_elsewhere[] = {
	{ "block", "reject" }, { "deny", "reject" },   { "disallow", "reject" },
	{ "drop", "reject" },  { "forbid", "reject" }, { "refuse", "reject" },
	{ "grant", "allow" },  { "pass", "allow" },    { "permit", "allow" },
	{ "audit", "warn" },   { "complain", "warn" }, { "permissive", "warn" },
	{ "watch", "warn" },   { NULL, NULL },
};

static const struct synonym operations_elsewhere[] = {
	{ "*", "any" },       { "all", "any" },         { "everything", "any" },
	{ "bind", "listen" }, { "monitor", "observe" }, { "multicast", "join" },
	{ NULL, NULL },
};

static const struct synonym words_elsewhere[] = {
	{ "uid", "user" },           { "gid", "group" },
	{ "peer-uid", "peer-user" }, { "peer-gid", "peer-group" },
	{ "dev", "device" },         { "service", "unit" },
	{ "message", "reason" },     { NULL, NULL },
};

/* NULL: no other language is known to have TOKEN. */
static const char *find_synonym(const struct token *token, const struct synonym *synonyms)
{
	for (size_t i = 0; synonyms[i].word; i++)
		if (token->len == strlen(synonyms[i].word) &&
		    strncasecmp(token->text, synonyms[i].word, token->len) == 0)
			return synonyms[i].meant;
	return NULL;
}

int grammar_take_operation(struct parser *parser, unsigned n, enum policy_operation *ret)
{
	const struct token *token = parser_take(parser);
	struct word_guess guess = { .word = token->text, .len = token->len };
	char names[128] = "";

	if (token->type != TOKEN_WORD)
		return parser_complain(parser, token, "expected an operation");

	for (unsigned i = 0; i < n; i++) {
		const char *name = policy_operation_to_string(i);

		if (token_is(token, name)) {
			*ret = i;
			return 0;
		}
		word_guess(&guess, name);
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 i > 0 ? ", " : "", name);
	}

	return parser_complain_unknown(parser, token, "operation",
				       find_synonym(token, operations_elsewhere) ?: guess.best,
				       names);
}

static int parse_operation(struct parser *parser, struct policy_rule *rule)
{
	int r = grammar_take_operation(parser, _POLICY_OPERATION_MAX + 1, &rule->operation);

	if (r == 0 && parser->is_site && rule->allow && rule->operation == POLICY_ADMIN)
		return parser_complain(parser, parser->token - 1,
				       "this host takes no rules for 'admin' from its site "
				       "(SiteAdminRules= of rdmabrokerd.conf)");
	return r;
}

/* The part of a rule that was parsed so far. */
struct said {
	uint64_t words; /* bit i: the rule has word i of the table */
	unsigned operations; /* operations to which the rule can still apply */
	size_t n_matches;
	bool has_setting;
};

/* A warn rule has the settings of an allow rule, and a reason. */
static int places_of(const struct policy_rule *rule)
{
	return rule->warns ? WORD_ON_BOTH : rule->allow ? WORD_ON_ALLOW : WORD_ON_REJECT;
}

/* Complains if RULE cannot have WORD at this place. The rest of the line is parsed nevertheless. */
static void check_word(struct parser *parser, const struct token *token,
		       const struct policy_word *word, const struct policy_rule *rule,
		       struct said *said)
{
	uint64_t bit = UINT64_C(1) << policy_word_index(word);

	if (said->words & bit)
		parser_complain(parser, token, "'%s' occurs twice in this rule", word->name);

	if (parser->is_restriction && !(word->places & WORD_IN_RESTRICTION))
		parser_complain(parser, token, "'%s' cannot be used in a restriction", word->name);
	else if (!(word->places & places_of(rule)))
		parser_complain(parser, token, "'%s' is for %s rules only", word->name,
				rule->allow ? "reject and warn" : "allow and warn");
	else if (!(word->operations & said->operations))
		parser_complain(parser, token, "'%s' cannot be used with '%s'%s", word->name,
				policy_operation_to_string(rule->operation),
				rule->operation == _POLICY_OPERATION_MAX ?
					" and the matches before it" :
					"");

	if (word->match && said->has_setting)
		parser_complain(parser, token, "match '%s' must come before the settings",
				word->name);
}

/* Complains if a connection request of the rule's port space cannot carry as much private data as the rule has. */
static void check_data(struct parser *parser, const struct token *token, size_t n_matches)
{
	const struct policy *policy = parser->policy;
	const struct policy_data *data = NULL;
	int port_space = 0;

	for (size_t i = policy->n_matches - n_matches; i < policy->n_matches; i++) {
		const struct policy_match *match = &policy->matches[i];

		if (match->word->match == match_data)
			data = match->value.data;
		else if (match->word->match == match_ps)
			port_space = match->value.number;
	}
	if (data && data->len > match_data_max(port_space))
		parser_complain(parser, token,
				"this rule can never match: requests of its port space carry at "
				"most %zu bytes of private data, but the rule has %zu",
				match_data_max(port_space), data->len);
}

static int parse_word(struct parser *parser, struct policy_rule *rule, struct said *said)
{
	const struct token *token = parser_take(parser);
	const struct policy_word *word;
	struct policy_match match = {};
	struct policy_rule again = { 0 };
	uint64_t bit;
	int r;

	if (token->type != TOKEN_WORD)
		return parser_complain(parser, token, "expected a match or a setting");
	word = policy_word_find(token);
	if (!word)
		return parser_complain_unknown(
			parser, token, "word",
			find_synonym(token, words_elsewhere) ?: policy_word_guess(token), NULL);
	if (parser->token->type == TOKEN_EQUALS)
		return parser_complain(parser, parser->token, "'%s' takes its value without '='",
				       word->name);

	settings_init(&again.settings);
	check_word(parser, token, word, rule, said);
	/*
	 * Store the value of a repeated word in AGAIN. In RULE it could contradict the first value and cause a second
	 * complaint.
	 */
	bit = UINT64_C(1) << policy_word_index(word);
	parser->word = word;
	r = word->parse(parser, said->words & bit ? &again : rule, &match.value);
	if (r < 0)
		return r;
	said->words |= bit;

	if (!word->match) {
		said->has_setting = true;
		return 0;
	}

	/* A rule for "any" applies only to operations for which all of its matches are allowed. */
	if (word->operations & said->operations)
		said->operations &= word->operations;
	if (parser->is_line_bad)
		return 0;
	match.word = word;
	r = policy_add_match(parser->policy, &match);
	if (r < 0)
		return r;
	said->n_matches++;
	check_data(parser, token, said->n_matches);
	return 0;
}

/* Returns the text of the line from FIRST on, as for policy_rule.text. */
static char *text_new(struct policy *policy, const struct token *first)
{
	const struct token *token;
	size_t size = 1;
	char *text, *end;

	for (token = first; token->type != TOKEN_END; token++)
		size += token->len + 3; /* blank and quotes */
	text = end = policy_alloc(policy, size);
	if (!text)
		return NULL;

	for (token = first; token->type != TOKEN_END; token++) {
		bool is_string = token->type == TOKEN_STRING;

		if (token != first && token->type != TOKEN_COMMA && token[-1].type != TOKEN_COMMA)
			*end++ = ' ';
		if (is_string)
			*end++ = '"';
		end = mempcpy(end, token->text, token->len);
		if (is_string)
			*end++ = '"';
	}
	return text;
}

static int parse_rule(struct parser *parser, bool allow, bool warns)
{
	const struct token *start = parser->token - 1;
	struct policy_rule rule = {
		.file = parser->file,
		.line = start->line.number,
		.column = start->column,
		.allow = allow,
		.warns = warns,
	};
	struct said said = {};
	size_t n_matches_before = parser->policy->n_matches;
	int r;

	settings_init(&rule.settings);
	if (warns)
		settings_as_kernel(&rule.settings);
	r = parse_operation(parser, &rule);
	if (r < 0)
		return r;

	said.operations = rule.operation == _POLICY_OPERATION_MAX ? POLICY_ANY_OPERATIONS :
								    1u << rule.operation;
	while (parser->token->type != TOKEN_END) {
		r = parse_word(parser, &rule, &said);
		if (r < 0)
			break;
	}
	if (r >= 0 && !parser->is_line_bad && parser->policy->n_rules == POLICY_RULES_MAX) {
		parser->is_full = true;
		r = parser_complain(parser, start, "more than %u rules", POLICY_RULES_MAX);
	}
	if (r < 0 || parser->is_line_bad) {
		parser->policy->n_matches = n_matches_before;
		return r;
	}

	rule.text = text_new(parser->policy, start);
	if (!rule.text)
		return -ENOMEM;
	return policy_add_rule(parser->policy, &rule, said.operations, said.n_matches);
}

static int parse_line(struct parser *parser)
{
	static const char *const actions[] = { "allow", "reject", "warn", "set" };
	const struct token *token = parser_take(parser);
	struct word_guess guess = { .word = token->text, .len = token->len };

	if (token_is(token, "allow"))
		return parse_rule(parser, /* allow= */ true, /* warns= */ false);
	if (token_is(token, "reject"))
		return parse_rule(parser, /* allow= */ false, /* warns= */ false);
	if (parser->is_restriction && (token_is(token, "set") || token_is(token, "warn")))
		return parser_complain(parser, token, "'%.*s' cannot be used in a restriction",
				       (int)token->len, token->text);
	if (token_is(token, "warn"))
		return parse_rule(parser, /* allow= */ true, /* warns= */ true);
	if (token_is(token, "set"))
		return set_parse(parser);

	if (token->type != TOKEN_WORD)
		return parser_complain(parser, token,
				       "a line must begin with allow, reject, warn or set");
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		word_guess(&guess, actions[i]);
	return parser_complain_unknown(parser, token, "action",
				       find_synonym(token, actions_elsewhere) ?: guess.best,
				       "allow, reject, warn, set");
}

int grammar_read(struct parser *parser, struct source *source)
{
	const char *name = source_name(source);
	struct lexer lexer;
	char *file;
	int r = 0;

	file = policy_alloc(parser->policy, strlen(name) + 1);
	if (!file)
		return -ENOMEM;
	parser->file = strcpy(file, name);

	lexer_init(&lexer, source, parser->diag);
	while (!parser->is_full) {
		r = lexer_next(&lexer);
		if (r == 0)
			break;
		if (r > 0) {
			parser->token = lexer.tokens;
			parser->is_line_bad = false;
			r = parse_line(parser);
			if (r == 0 && parser->is_line_bad)
				r = -EBADMSG;
		}
		if (r == -EBADMSG)
			parser->has_failed = true;
		else if (r < 0)
			break;
	}
	lexer_done(&lexer);
	parser->token = NULL;

	if (r < 0 && r != -EBADMSG)
		return r;
	return parser->has_failed ? -EBADMSG : 0;
}
