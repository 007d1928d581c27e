/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <string.h>

#include "policy/parser.h"
#include "policy/words.h"

/* What the private data of a reject has left behind its 12 bytes of header: 148 - 12. */
#define REASON_MAX 136

/* The two can come in either order, so each of them looks at the other. */
static void check_tos(struct parser *parser, const struct token *token,
		      const struct policy_settings *settings)
{
	if (settings->tos >= 0 && settings->tos_max >= 0 && settings->tos_max < settings->tos)
		parser_complain(parser, token, "tos-max %d is below the forced traffic class %d",
				settings->tos_max, settings->tos);
}

static void set_tos(struct parser *parser, struct policy_rule *rule, const struct token *word,
		    const struct token *value, int tos)
{
	if (rule->settings.tos >= 0)
		parser_complain(parser, word, "the traffic class is already set in this rule");
	rule->settings.tos = tos;
	check_tos(parser, value, &rule->settings);
}

int setting_parse_tos(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *value = parser->token;
	uint32_t tos;
	int r;

	(void)ret;
	r = parser_take_number(parser, "tos", 0, 255, &tos);
	if (r < 0)
		return r;
	set_tos(parser, rule, value - 1, value, tos);
	return 0;
}

/* -1: no such name */
static int dscp_from_token(const struct token *token)
{
	const char *name = token->text;
	size_t len = token->type == TOKEN_WORD ? token->len : 0;

	if (token_is(token, "ef"))
		return 46;
	if (len == 3 && !memcmp(name, "cs", 2) && name[2] >= '0' && name[2] <= '7')
		return (name[2] - '0') * 8;
	/* afXY: class X, drop precedence Y */
	if (len == 4 && !memcmp(name, "af", 2) && name[2] >= '1' && name[2] <= '4' &&
	    name[3] >= '1' && name[3] <= '3')
		return (name[2] - '0') * 8 + (name[3] - '0') * 2;
	return -1;
}

int setting_parse_dscp(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *value = parser_take(parser);
	int dscp = dscp_from_token(value);

	(void)ret;
	if (dscp < 0)
		return parser_complain(parser, value,
				       "'dscp' takes cs0 to cs7, af11 to af43 or ef");

	/* The two low bits of the traffic class are ECN's. */
	set_tos(parser, rule, value - 1, value, dscp << 2);
	return 0;
}

int setting_parse_tos_max(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *value = parser->token;
	uint32_t tos;
	int r;

	(void)ret;
	r = parser_take_number(parser, "tos-max", 0, 255, &tos);
	if (r < 0)
		return r;
	rule->settings.tos_max = tos;
	check_tos(parser, value, &rule->settings);
	return 0;
}

int setting_parse_reuseaddr(struct parser *parser, struct policy_rule *rule,
			    union policy_value *ret)
{
	static const char *const names[] = {
		[POLICY_REUSEADDR_NO] = "no",
		[POLICY_REUSEADDR_YES] = "yes",
		[POLICY_REUSEADDR_CLIENT] = "client",
	};
	const struct token *token = parser_take(parser);

	(void)ret;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (token_is(token, names[i])) {
			rule->settings.reuseaddr = i;
			return 0;
		}
	}
	return parser_complain(parser, token, "'reuseaddr' takes yes, no or client");
}

int setting_parse_backlog(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	uint32_t backlog;
	int r;

	(void)ret;
	r = parser_take_number(parser, "backlog", 1, 65535, &backlog);
	if (r < 0)
		return r;
	rule->settings.backlog = backlog;
	return 0;
}

int setting_parse_reason(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *token = parser_take(parser);
	char *reason;

	(void)ret;
	if (token->type != TOKEN_STRING)
		return parser_complain(parser, token, "'reason' takes a text in double quotes");

	reason = policy_alloc(parser->policy, token->len + 1);
	if (!reason)
		return -ENOMEM;
	token_unescape(token, reason);
	if (!reason[0] || strlen(reason) > REASON_MAX)
		parser_complain(parser, token, "a reason has 1 to %u bytes, this one has %zu",
				REASON_MAX, strlen(reason));
	rule->reason = reason;
	return 0;
}

int setting_parse_log(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	(void)parser;
	(void)ret;
	rule->log = true;
	return 0;
}
