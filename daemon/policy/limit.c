/* SPDX-License-Identifier: BSD-2-Clause */

/* Settings that limit rates and numbers. */

#include <errno.h>
#include <string.h>

#include "policy/parser.h"
#include "policy/words.h"

#define RATE_MAX 1000000
#define COUNT_MAX 16777216

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

/*
 * Complains if the rate PART never takes effect, because the rule's rate WHOLE is lower, and its burst is not larger.
 */
static void check_rate(struct parser *parser, const struct token *token, const char *what,
		       const struct policy_rate *part, const struct policy_rate *whole)
{
	if (part->per_second && whole->per_second && part->per_second > whole->per_second &&
	    part->burst >= whole->burst)
		parser_complain(parser, token,
				"%s %u/s never takes effect, because the rate of the rule is %u/s",
				what, part->per_second, whole->per_second);
}

static int parse_rate(struct parser *parser, const char *what, struct policy_rule *rule,
		      struct policy_rate *rate)
{
	const struct token *token = parser->token;
	uint32_t per_second = 0, burst;
	int r;

	r = take_rate(parser, what, &per_second);
	if (r < 0)
		return r;
	burst = per_second;
	if (token_is(parser->token, "burst")) {
		parser_take(parser);
		r = parser_take_number(parser, "burst", 1, RATE_MAX, &burst);
		if (r < 0)
			return r;
	}
	*rate = (struct policy_rate){ .per_second = per_second, .burst = burst };

	/* The rates of a rule can be in any order, so check them after each one. */
	if (rate != &rule->settings.rate_per_peer)
		check_rate(parser, token, "rate-per-user", &rule->settings.rate_per_user,
			   &rule->settings.rate);
	if (rate != &rule->settings.rate_per_user)
		check_rate(parser, token, "rate-per-peer", &rule->settings.rate_per_peer,
			   &rule->settings.rate);
	return 0;
}

int setting_parse_rate(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	(void)ret;
	return parse_rate(parser, "rate", rule, &rule->settings.rate);
}

int setting_parse_rate_per_user(struct parser *parser, struct policy_rule *rule,
				union policy_value *ret)
{
	(void)ret;
	return parse_rate(parser, "rate-per-user", rule, &rule->settings.rate_per_user);
}

int setting_parse_rate_per_peer(struct parser *parser, struct policy_rule *rule,
				union policy_value *ret)
{
	(void)ret;
	return parse_rate(parser, "rate-per-peer", rule, &rule->settings.rate_per_peer);
}

/* parse_rate() reads the word "burst" after a rate. Anywhere else it is an error. */
int setting_parse_burst(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	(void)rule;
	(void)ret;
	return parser_complain(parser, parser->token - 1,
			       "'burst' must directly follow the rate that it belongs to");
}

static int parse_count(struct parser *parser, const char *what, unsigned *ret)
{
	uint32_t n;
	int r;

	r = parser_take_number(parser, what, 1, COUNT_MAX, &n);
	if (r < 0)
		return r;
	*ret = n;
	return 0;
}

static void check_max(struct parser *parser, const struct token *token,
		      const struct policy_settings *settings)
{
	if (settings->max && settings->max_per_user > settings->max)
		parser_complain(parser, token,
				"max-per-user %u never takes effect, because the max of the rule "
				"is %u",
				settings->max_per_user, settings->max);
}

int setting_parse_max(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *token = parser->token;
	int r;

	(void)ret;
	r = parse_count(parser, "max", &rule->settings.max);
	if (r < 0)
		return r;
	check_max(parser, token, &rule->settings);
	return 0;
}

int setting_parse_max_per_user(struct parser *parser, struct policy_rule *rule,
			       union policy_value *ret)
{
	const struct token *token = parser->token;
	int r;

	(void)ret;
	r = parse_count(parser, "max-per-user", &rule->settings.max_per_user);
	if (r < 0)
		return r;
	check_max(parser, token, &rule->settings);
	return 0;
}

int setting_parse_pending(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	(void)ret;
	return parse_count(parser, "pending", &rule->settings.pending);
}
