/* SPDX-License-Identifier: BSD-2-Clause */

#include <string.h>

#include "policy/lexer.h"
#include "policy/words.h"
#include "util/diag.h"

#define SESSION (1u << POLICY_SESSION)
#define DEVICE (1u << POLICY_DEVICE)
#define LISTEN (1u << POLICY_LISTEN)
#define CONNECT (1u << POLICY_CONNECT)
#define ACCEPT (1u << POLICY_ACCEPT)
#define JOIN (1u << POLICY_JOIN)
#define ALL POLICY_ALL_OPERATIONS
/* what makes something that can be counted */
#define COUNTED (SESSION | DEVICE | LISTEN | CONNECT | ACCEPT | JOIN)
/* what has a port space */
#define CM (LISTEN | CONNECT | ACCEPT | JOIN)

/* clang-format off */
static const struct policy_word words[] = {
	/* word                  on              for operations            parse                              match */
	{ "user",                WORD_ON_BOTH,   ALL,                      match_parse_user,                  match_user },
	{ "group",               WORD_ON_BOTH,   ALL,                      match_parse_group,                 match_group },
	{ "unit",                WORD_ON_BOTH,   ALL,                      match_parse_unit,                  match_unit },
	{ "local",               WORD_ON_BOTH,   CM,                       match_parse_prefix,                match_local },
	{ "peer",                WORD_ON_BOTH,   CONNECT | ACCEPT | JOIN,  match_parse_prefix,                match_peer },
	{ "port",                WORD_ON_BOTH,   LISTEN | CONNECT | ACCEPT, match_parse_port,                 match_port },
	{ "device",              WORD_ON_BOTH,   DEVICE | CM,              match_parse_device,                match_device },
	{ "ps",                  WORD_ON_BOTH,   CM,                       match_parse_ps,                    match_ps },
	{ "data",                WORD_ON_BOTH,   ACCEPT,                   match_parse_data,                  match_data },
	{ "tos",                 WORD_ON_ALLOW,  CONNECT | ACCEPT,         setting_parse_tos,                 NULL },
	{ "dscp",                WORD_ON_ALLOW,  CONNECT | ACCEPT,         setting_parse_dscp,                NULL },
	{ "tos-max",             WORD_ON_ALLOW,  CONNECT | ACCEPT,         setting_parse_tos_max,             NULL },
	{ "reuseaddr",           WORD_ON_ALLOW,  CONNECT,                  setting_parse_reuseaddr,           NULL },
	{ "ack-timeout",         WORD_ON_ALLOW,  CONNECT | ACCEPT,         setting_parse_ack_timeout,         NULL },
	{ "backlog",             WORD_ON_ALLOW,  LISTEN,                   setting_parse_backlog,             NULL },
	{ "responder-resources", WORD_ON_ALLOW,  CONNECT | ACCEPT,         setting_parse_responder_resources, NULL },
	{ "initiator-depth",     WORD_ON_ALLOW,  CONNECT | ACCEPT,         setting_parse_initiator_depth,     NULL },
	{ "retry-count",         WORD_ON_ALLOW,  CONNECT | ACCEPT,         setting_parse_retry_count,         NULL },
	{ "rnr-retry-count",     WORD_ON_ALLOW,  CONNECT | ACCEPT,         setting_parse_rnr_retry_count,     NULL },
	{ "rate",                WORD_ON_ALLOW,  COUNTED,                  setting_parse_rate,                NULL },
	{ "rate-per-user",       WORD_ON_ALLOW,  COUNTED,                  setting_parse_rate_per_user,       NULL },
	{ "rate-per-peer",       WORD_ON_ALLOW,  CONNECT | ACCEPT | JOIN,  setting_parse_rate_per_peer,       NULL },
	{ "burst",               WORD_ON_ALLOW,  COUNTED,                  setting_parse_burst,               NULL },
	{ "max",                 WORD_ON_ALLOW,  COUNTED,                  setting_parse_max,                 NULL },
	{ "max-per-user",        WORD_ON_ALLOW,  COUNTED,                  setting_parse_max_per_user,        NULL },
	{ "pending",             WORD_ON_ALLOW,  ACCEPT,                   setting_parse_pending,             NULL },
	{ "reason",              WORD_ON_REJECT, ALL,                      setting_parse_reason,              NULL },
	{ "log",                 WORD_ON_BOTH,   ALL,                      setting_parse_log,                 NULL },
};
/* clang-format on */

#define N_WORDS (sizeof(words) / sizeof(words[0]))

_Static_assert(N_WORDS <= 64, "the parser keeps the words of a line in 64 bits");

const struct policy_word *policy_word_find(const struct token *token)
{
	for (size_t i = 0; i < N_WORDS; i++)
		if (token_is(token, words[i].name))
			return &words[i];
	return NULL;
}

size_t policy_word_index(const struct policy_word *word)
{
	return word - words;
}

const char *policy_word_guess(const struct token *token)
{
	struct diag_guess guess = { .word = token->text, .len = token->len };

	for (size_t i = 0; i < N_WORDS; i++)
		diag_guess(&guess, words[i].name);
	return guess.best;
}
