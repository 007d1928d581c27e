/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <string.h>

#include "policy/parser.h"
#include "policy/rules.h"
#include "policy/words.h"
#include "proto/status.h"
#include "proto/word.h"

/*
 * Complains if tos-max is below the forced traffic class. Called for each of tos, dscp and tos-max, because they can
 * be in any order.
 */
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

static const struct {
	const char *name;
	int dscp;
} dscps[] = {
	{ "cs0", 0 },   { "cs1", 8 },   { "cs2", 16 },  { "cs3", 24 },  { "cs4", 32 },
	{ "cs5", 40 },  { "cs6", 48 },  { "cs7", 56 },  { "af11", 10 }, { "af12", 12 },
	{ "af13", 14 }, { "af21", 18 }, { "af22", 20 }, { "af23", 22 }, { "af31", 26 },
	{ "af32", 28 }, { "af33", 30 }, { "af41", 34 }, { "af42", 36 }, { "af43", 38 },
	{ "ef", 46 },
};

/* Returns the DSCP; -1: no such name, and GUESS has seen all names. */
static int dscp_from_token(const struct token *token, struct word_guess *guess)
{
	for (size_t i = 0; i < sizeof(dscps) / sizeof(dscps[0]); i++) {
		if (token_is(token, dscps[i].name))
			return dscps[i].dscp;
		word_guess(guess, dscps[i].name);
	}
	return -1;
}

int setting_parse_dscp(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	const struct token *value = parser_take(parser);
	struct word_guess guess = { .word = value->text, .len = value->len };
	int dscp = dscp_from_token(value, &guess);

	(void)ret;
	if (dscp < 0)
		return parser_complain_value(parser, value,
					     "'dscp' takes cs0 to cs7, af11 to af43 or ef", &guess);

	/* The two low bits of the traffic class are for ECN. */
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

/* Takes one of N names. Returns its index, or -EBADMSG. TAKES as in parser_complain_value(). */
static int take_name(struct parser *parser, const char *const *names, int n, const char *takes)
{
	const struct token *token = parser_take(parser);
	struct word_guess guess = { .word = token->text, .len = token->len };

	for (int i = 0; i < n; i++) {
		if (token_is(token, names[i]))
			return i;
		word_guess(&guess, names[i]);
	}
	return parser_complain_value(parser, token, takes, &guess);
}

int setting_parse_reuseaddr(struct parser *parser, struct policy_rule *rule,
			    union policy_value *ret)
{
	static const enum policy_reuseaddr modes[] = { POLICY_REUSEADDR_YES, POLICY_REUSEADDR_NO,
						       POLICY_REUSEADDR_CLIENT };
	static const char *const names[] = { "yes", "no", "client" };
	int r;

	(void)ret;
	r = take_name(parser, names, sizeof(names) / sizeof(names[0]),
		      "'reuseaddr' takes yes, no or client");
	if (r < 0)
		return r;
	rule->settings.reuseaddr = modes[r];
	return 0;
}

int setting_parse_qp(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	static const char *const names[] = {
		[POLICY_QP_OWN] = "own",
		[POLICY_QP_RESERVED] = "reserved",
	};
	int r;

	(void)ret;
	r = take_name(parser, names, sizeof(names) / sizeof(names[0]),
		      "'qp' takes own or reserved");
	if (r < 0)
		return r;
	rule->settings.qp = r;
	return 0;
}

int setting_parse_access(struct parser *parser, struct policy_rule *rule, union policy_value *ret)
{
	static const char *const names[] = { "acl", "open" };
	int r;

	(void)ret;
	r = take_name(parser, names, sizeof(names) / sizeof(names[0]),
		      "'access' takes acl or open");
	if (r < 0)
		return r;
	rule->settings.access = r == 0 ? POLICY_ACCESS_ACL : POLICY_ACCESS_OPEN;
	return 0;
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

static int take_int(struct parser *parser, const char *what, uint32_t max, int *ret)
{
	uint32_t n;
	int r;

	r = parser_take_number(parser, what, 0, max, &n);
	if (r < 0)
		return r;
	*ret = n;
	return 0;
}

int setting_parse_ack_timeout(struct parser *parser, struct policy_rule *rule,
			      union policy_value *ret)
{
	(void)ret;
	return take_int(parser, "ack-timeout", 31, &rule->settings.ack_timeout);
}

int setting_parse_responder_resources(struct parser *parser, struct policy_rule *rule,
				      union policy_value *ret)
{
	(void)ret;
	return take_int(parser, "responder-resources", 255, &rule->settings.responder_resources);
}

int setting_parse_initiator_depth(struct parser *parser, struct policy_rule *rule,
				  union policy_value *ret)
{
	(void)ret;
	return take_int(parser, "initiator-depth", 255, &rule->settings.initiator_depth);
}

int setting_parse_retry_count(struct parser *parser, struct policy_rule *rule,
			      union policy_value *ret)
{
	(void)ret;
	return take_int(parser, "retry-count", 7, &rule->settings.retry_count);
}

int setting_parse_rnr_retry_count(struct parser *parser, struct policy_rule *rule,
				  union policy_value *ret)
{
	(void)ret;
	return take_int(parser, "rnr-retry-count", 7, &rule->settings.rnr_retry_count);
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
	if (!reason[0] || strlen(reason) > REFUSAL_TEXT_MAX)
		parser_complain(parser, token, "a reason has 1 to %u bytes, this one has %zu",
				REFUSAL_TEXT_MAX, strlen(reason));
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
