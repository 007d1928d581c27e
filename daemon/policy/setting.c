/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "policy/parser.h"
#include "policy/rules.h"
#include "policy/words.h"
#include "proto/status.h"
#include "proto/word.h"

/*
 * The settings of rules: how each type of them is parsed, checked and printed. words.c has a row for each setting;
 * what a setting does, the core knows.
 */

#define RATE_MAX 1000000

static void *value_of(struct policy_settings *settings, const struct policy_word *word)
{
	return (char *)settings + word->setting.offset;
}

static bool is_about(const struct policy_settings *settings, const struct policy_word *word,
		     const void *member)
{
	return word->setting.form != SETTING_NONE &&
	       (const char *)settings + word->setting.offset == member;
}

void settings_init(struct policy_settings *settings)
{
	const struct policy_word *word;

	*settings = (struct policy_settings){ 0 };
	for (size_t i = 0; (word = policy_word_at(i)); i++)
		if (word->setting.form == SETTING_NUMBER)
			*(int *)value_of(settings, word) = -1;
}

void settings_as_kernel(struct policy_settings *settings)
{
	settings->reuseaddr = POLICY_REUSEADDR_CLIENT;
	settings->qp = POLICY_QP_RESERVED;
}

/*
 * Complains if RATE, of the setting WHAT, never takes effect, because the rule's own rate is lower, and its burst is
 * not larger.
 */
static void check_rate(struct parser *parser, const struct token *token, const char *what,
		       const struct policy_rate *rate, const struct policy_rate *whole)
{
	if (rate->per_second && whole->per_second && rate->per_second > whole->per_second &&
	    rate->burst >= whole->burst)
		parser_complain(parser, token,
				"%s %u/s never takes effect, because the rate of the rule is %u/s",
				what, rate->per_second, whole->per_second);
}

/* Settings that contradict each other can be in any order, so they are compared after each of them. */
static void check(struct parser *parser, const struct token *token, const struct policy_word *word,
		  const struct policy_settings *s)
{
	bool is_rate = is_about(s, word, &s->rate);
	bool is_tos = word->parse == setting_parse_dscp || is_about(s, word, &s->tos);

	if ((is_tos || is_about(s, word, &s->tos_max)) && s->tos >= 0 && s->tos_max >= 0 &&
	    s->tos_max < s->tos)
		parser_complain(parser, token, "tos-max %d is below the forced traffic class %d",
				s->tos_max, s->tos);
	if ((is_about(s, word, &s->max) || is_about(s, word, &s->max_per_user)) && s->max &&
	    s->max_per_user > s->max)
		parser_complain(parser, token,
				"max-per-user %u never takes effect, because the max of the rule "
				"is %u",
				s->max_per_user, s->max);
	if (is_rate || is_about(s, word, &s->rate_per_user))
		check_rate(parser, token, "rate-per-user", &s->rate_per_user, &s->rate);
	if (is_rate || is_about(s, word, &s->rate_per_peer))
		check_rate(parser, token, "rate-per-peer", &s->rate_per_peer, &s->rate);
}

int setting_parse_number(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct policy_word *word = parser->word;
	const struct token *value = parser->token;
	uint32_t n;
	int r;

	r = parser_take_number(parser, word->name, word->setting.least, word->setting.most, &n);
	if (r < 0)
		return r;
	*(int *)value_of(&rule->settings, word) = (int)n;
	check(parser, value, word, &rule->settings);
	return 0;
}

int setting_parse_name(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct policy_word *word = parser->word;
	int value = parser_take_word(parser, word->setting.names, word->setting.takes);

	if (value < 0)
		return value;
	*(int *)value_of(&rule->settings, word) = value;
	return 0;
}

static int set_tos(struct parser *parser, struct policy_rule *rule, const struct token *value,
		   int tos)
{
	const struct policy_word *word = parser->word;
	if (rule->settings.tos >= 0)
		parser_complain(parser, value - 1, "the traffic class is already set in this rule");
	rule->settings.tos = tos;
	check(parser, value, word, &rule->settings);
	return 0;
}

int setting_parse_tos(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct policy_word *word = parser->word;
	const struct token *value = parser->token;
	uint32_t tos;
	int r;

	r = parser_take_number(parser, word->name, word->setting.least, word->setting.most, &tos);
	return r < 0 ? r : set_tos(parser, rule, value, (int)tos);
}

static const struct {
	const char *name;
	int value;
} dscps[] = {
	{ "cs0", 0 },   { "cs1", 8 },   { "cs2", 16 },  { "cs3", 24 },  { "cs4", 32 },
	{ "cs5", 40 },  { "cs6", 48 },  { "cs7", 56 },  { "af11", 10 }, { "af12", 12 },
	{ "af13", 14 }, { "af21", 18 }, { "af22", 20 }, { "af23", 22 }, { "af31", 26 },
	{ "af32", 28 }, { "af33", 30 }, { "af41", 34 }, { "af42", 36 }, { "af43", 38 },
	{ "ef", 46 },
};

int setting_parse_dscp(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *value = parser_take(parser);
	struct word_guess guess = { .word = value->text, .len = value->len };

	for (size_t i = 0; i < sizeof(dscps) / sizeof(dscps[0]); i++) {
		/* The two low bits of the traffic class are for ECN. */
		if (token_is(value, dscps[i].name))
			return set_tos(parser, rule, value, dscps[i].value << 2);
		word_guess(&guess, dscps[i].name);
	}
	return parser_complain_value(parser, value, "'dscp' takes cs0 to cs7, af11 to af43 or ef",
				     &guess);
}

/* Reads a rate, as in "200/s". */
static int take_rate(struct parser *parser, const char *what, uint32_t *ret)
{
	const struct token *token = parser_take(parser);
	const char *slash = NULL;
	size_t len = token->len;
	uint32_t n;

	if (token->type == TOKEN_WORD)
		slash = memchr(token->text, '/', token->len);
	if (slash)
		len = slash - token->text;
	if (token->type != TOKEN_WORD || !parser_is_number(token->text, len, &n) || n < 1 ||
	    n > RATE_MAX)
		return parser_complain(parser, token, "'%s' takes N/s, with N from 1 to %u", what,
				       RATE_MAX);
	if (token->len != len + 2 || token->text[len + 1] != 's')
		return parser_complain(parser, token,
				       "'%s' takes a number per second, did you mean '%u/s'?", what,
				       n);
	*ret = n;
	return 0;
}

int setting_parse_rate(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct policy_word *word = parser->word;
	const struct token *token = parser->token;
	uint32_t per_second = 0, burst;
	int r;

	r = take_rate(parser, word->name, &per_second);
	if (r < 0)
		return r;
	burst = per_second;
	if (token_is(parser->token, "burst")) {
		parser_take(parser);
		r = parser_take_number(parser, "burst", 1, RATE_MAX, &burst);
		if (r < 0)
			return r;
	}
	*(struct policy_rate *)value_of(&rule->settings, word) =
		(struct policy_rate){ .per_second = per_second, .burst = burst };
	check(parser, token, word, &rule->settings);
	return 0;
}

/* setting_parse_rate() reads the word "burst" after a rate. Anywhere else it is an error. */
int setting_parse_burst(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	return parser_complain(parser, parser->token - 1,
			       "'burst' must directly follow the rate that it belongs to");
}

int setting_parse_reason(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *token = parser_take(parser);
	char *reason;

	if (token->type != TOKEN_STRING)
		return parser_complain(parser, token, "'reason' takes a text in double quotes");

	reason = policy_alloc(parser->policy, token->len + 1);
	if (!reason)
		return -ENOMEM;
	token_unescape(token, reason);
	if (!reason[0] || strlen(reason) > REFUSAL_TEXT_MAX)
		parser_complain(parser, token, "a reason has 1 to %u bytes, this one has %zu",
				REFUSAL_TEXT_MAX, strlen(reason));
	rule->reason = reason;
	return 0;
}

int setting_parse_log(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	rule->log = true;
	return 0;
}

/* False: RULE does not have the setting WORD, or it does not apply to OPERATION. */
static bool describe(const struct policy_rule *rule, enum policy_operation operation,
		     const struct policy_word *word, char *ret, size_t size)
{
	struct policy_settings settings = rule->settings;
	const struct policy_rate *rate;
	int value;

	if (!(word->operations & 1u << operation))
		return false;
	if (is_about(&settings, word, &settings.reuseaddr)) {
		settings.reuseaddr = policy_rule_reuseaddr(rule, operation);
		if (operation == POLICY_LISTEN && settings.reuseaddr != POLICY_REUSEADDR_NO)
			return false;
	}
	value = word->setting.form == SETTING_NONE ? 0 : *(int *)value_of(&settings, word);
	switch (word->setting.form) {
	case SETTING_NUMBER:
		snprintf(ret, size, "%s %d", word->name, value);
		return value >= 0;
	case SETTING_COUNT:
		snprintf(ret, size, "%s %d", word->name, value);
		return value > 0;
	case SETTING_NAME:
		snprintf(ret, size, "%s %s", word->name, word->setting.names[value]);
		return value > 0;
	case SETTING_RATE:
		rate = value_of(&settings, word);
		snprintf(ret, size, "%s %u/s burst %u", word->name, rate->per_second, rate->burst);
		return rate->per_second > 0;
	default:
		return false;
	}
}

bool policy_next_setting(const struct policy_rule *rule, enum policy_operation operation, size_t *i,
			 char *ret, size_t size)
{
	const struct policy_word *word;

	while ((word = policy_word_at((*i)++)))
		if (describe(rule, operation, word, ret, size))
			return true;
	return false;
}
