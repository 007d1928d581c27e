/* SPDX-License-Identifier: BSD-2-Clause */

#include <string.h>

#include "policy/lexer.h"
#include "policy/words.h"
#include "proto/word.h"

#define SESSION (1u << POLICY_SESSION)
#define DEVICE (1u << POLICY_DEVICE)
#define LISTEN (1u << POLICY_LISTEN)
#define CONNECT (1u << POLICY_CONNECT)
#define ACCEPT (1u << POLICY_ACCEPT)
#define JOIN (1u << POLICY_JOIN)
#define ALL POLICY_ALL_OPERATIONS
/* operations whose objects can be counted and limited */
#define COUNTED (SESSION | DEVICE | LISTEN | CONNECT | ACCEPT | JOIN)
/* operations that have a port space */
#define CM (LISTEN | CONNECT | ACCEPT | JOIN)
#define WORD_NARROWS (WORD_ON_BOTH | WORD_IN_RESTRICTION)
#define WORD_EXPLAINS (WORD_ON_REJECT | WORD_IN_RESTRICTION)

/* clang-format off */
static const struct policy_word words[] = {
	/* word                   on              for operations              parse                              about        match */
	{ "user",                 WORD_ON_BOTH,   ALL,                        match_parse_user,                  FACT_USER,    match_user, false },
	{ "group",                WORD_ON_BOTH,   ALL,                        match_parse_group,                 FACT_GROUP,   match_group, false },
	{ "unit",                 WORD_ON_BOTH,   ALL,                        match_parse_glob,                  FACT_UNIT,    match_unit, false },
	{ "container",             WORD_ON_BOTH,   ALL,                        match_parse_glob,                  FACT_CONTAINER,match_container, false },
	{ "pod",                   WORD_ON_BOTH,   ALL,                        match_parse_glob,                  FACT_POD,     match_pod, false },
	{ "job",                   WORD_ON_BOTH,   ALL,                        match_parse_glob,                  FACT_JOB,     match_job, false },
	{ "cgroup",                WORD_ON_BOTH,   ALL,                        match_parse_cgroup,                FACT_CGROUP,  match_cgroup, false },
	{ "local",                WORD_NARROWS,   CM,                         match_parse_prefix,                FACT_LOCAL,   match_local, false },
	{ "peer",                 WORD_NARROWS,   CONNECT | ACCEPT | JOIN,    match_parse_prefix,                FACT_PEER,    match_peer, false },
	{ "port",                 WORD_NARROWS,   LISTEN | CONNECT | ACCEPT,  match_parse_port,                  FACT_PORT,    match_port, false },
	{ "device",               WORD_NARROWS,   DEVICE | CM,                match_parse_glob,                  FACT_DEVICE,  match_device, false },
	{ "ps",                   WORD_NARROWS,   CM,                         match_parse_ps,                    FACT_PS,      match_ps, false },
	{ "data",                 WORD_NARROWS,   ACCEPT,                     match_parse_data,                  FACT_DATA,    match_data, false },
	{ "peer-user",            WORD_ON_BOTH,   CONNECT | ACCEPT,           match_parse_user,                  FACT_NONE,    match_peer_user, true },
	{ "peer-group",           WORD_ON_BOTH,   CONNECT | ACCEPT,           match_parse_group,                 FACT_NONE,    match_peer_group, true },
	{ "peer-unit",            WORD_ON_BOTH,   CONNECT | ACCEPT,           match_parse_glob,                  FACT_NONE,    match_peer_unit, true },
	{ "peer-same",            WORD_ON_BOTH,   CONNECT | ACCEPT,           match_parse_same,                  FACT_NONE,    match_peer_same, true },
	{ "tos",                  WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_tos,                 FACT_NONE,    NULL, false },
	{ "dscp",                 WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_dscp,                FACT_NONE,    NULL, false },
	{ "tos-max",              WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_tos_max,             FACT_NONE,    NULL, false },
	{ "reuseaddr",            WORD_ON_ALLOW,  LISTEN | CONNECT,           setting_parse_reuseaddr,           FACT_NONE,    NULL, false },
	{ "ack-timeout",          WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_ack_timeout,         FACT_NONE,    NULL, false },
	{ "qp",                   WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_qp,                  FACT_NONE,    NULL, false },
	{ "access",               WORD_ON_ALLOW,  DEVICE,                     setting_parse_access,              FACT_NONE,    NULL, false },
	{ "backlog",              WORD_ON_ALLOW,  LISTEN,                     setting_parse_backlog,             FACT_NONE,    NULL, false },
	{ "responder-resources",  WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_responder_resources, FACT_NONE,    NULL, false },
	{ "initiator-depth",      WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_initiator_depth,     FACT_NONE,    NULL, false },
	{ "retry-count",          WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_retry_count,         FACT_NONE,    NULL, false },
	{ "rnr-retry-count",      WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_rnr_retry_count,     FACT_NONE,    NULL, false },
	{ "rate",                 WORD_ON_ALLOW,  COUNTED,                    setting_parse_rate,                FACT_NONE,    NULL, false },
	{ "rate-per-user",        WORD_ON_ALLOW,  COUNTED,                    setting_parse_rate_per_user,       FACT_NONE,    NULL, false },
	{ "rate-per-peer",        WORD_ON_ALLOW,  CONNECT | ACCEPT | JOIN,    setting_parse_rate_per_peer,       FACT_NONE,    NULL, false },
	{ "burst",                WORD_ON_ALLOW,  COUNTED,                    setting_parse_burst,               FACT_NONE,    NULL, false },
	{ "max",                  WORD_ON_ALLOW,  COUNTED,                    setting_parse_max,                 FACT_NONE,    NULL, false },
	{ "max-per-user",         WORD_ON_ALLOW,  COUNTED,                    setting_parse_max_per_user,        FACT_NONE,    NULL, false },
	{ "pending",              WORD_ON_ALLOW,  ACCEPT,                     setting_parse_pending,             FACT_NONE,    NULL, false },
	{ "reason",               WORD_EXPLAINS, ALL,                        setting_parse_reason,              FACT_NONE,    NULL, false },
	{ "log",                  WORD_ON_BOTH,   ALL,                        setting_parse_log,                 FACT_NONE,    NULL, false },
};
/* clang-format on */

#define N_WORDS (sizeof(words) / sizeof(words[0]))

_Static_assert(N_WORDS <= 64, "the parser keeps the words of a line in 64 bits");

const struct policy_word *policy_word_at(size_t i)
{
	return i < N_WORDS ? &words[i] : NULL;
}

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
	struct word_guess guess = { .word = token->text, .len = token->len };

	for (size_t i = 0; i < N_WORDS; i++)
		word_guess(&guess, words[i].name);
	return guess.best;
}
