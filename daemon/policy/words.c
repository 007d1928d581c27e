/* SPDX-License-Identifier: BSD-2-Clause */

#include <stddef.h>
#include <string.h>

#include "policy/lexer.h"
#include "policy/policy.h"
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

static const char *const qp_names[] = { "own", "reserved", NULL };
static const char *const reuseaddr_names[] = { "", "no", "yes", "client", NULL };
static const char *const access_names[] = { "", "acl", "open", NULL };

#define MATCH(about, function) .fact = about, .match = function
#define MATCH_WHO(function) .match = function, .is_about_who = true
#define COUNT_MAX 16777216
#define AT(member) .setting.offset = offsetof(struct policy_settings, member)
#define NUMBER(member, min, max) \
	.setting.form = SETTING_NUMBER, AT(member), .setting.least = min, .setting.most = max
#define COUNT(member) \
	.setting.form = SETTING_COUNT, AT(member), .setting.least = 1, .setting.most = COUNT_MAX
#define NAMED(member, text)                                                        \
	.setting.form = SETTING_NAME, AT(member), .setting.names = member##_names, \
	.setting.takes = text
#define RATE(member) .setting.form = SETTING_RATE, AT(member)
#define OTHER .setting.form = SETTING_NONE

/* clang-format off */
static const struct policy_word words[] = {
	/* word                 on              for operations              parse                  about */
	{ "user",                 WORD_ON_BOTH,   ALL,                        match_parse_user,      MATCH(FACT_USER, match_user) },
	{ "group",                WORD_ON_BOTH,   ALL,                        match_parse_group,     MATCH(FACT_GROUP, match_group) },
	{ "unit",                 WORD_ON_BOTH,   ALL,                        match_parse_unit,      MATCH(FACT_UNIT, match_workload) },
	{ "container",            WORD_ON_BOTH,   ALL,                        match_parse_glob,      MATCH(FACT_CONTAINER, match_workload) },
	{ "pod",                  WORD_ON_BOTH,   ALL,                        match_parse_glob,      MATCH(FACT_POD, match_workload) },
	{ "job",                  WORD_ON_BOTH,   ALL,                        match_parse_glob,      MATCH(FACT_JOB, match_workload) },
	{ "cgroup",               WORD_ON_BOTH,   ALL,                        match_parse_cgroup,    MATCH(FACT_CGROUP, match_cgroup) },
	{ "local",                WORD_NARROWS,   CM,                         match_parse_prefix,    MATCH(FACT_LOCAL, match_local) },
	{ "peer",                 WORD_NARROWS,   CONNECT | ACCEPT | JOIN,    match_parse_prefix,    MATCH(FACT_PEER, match_peer) },
	{ "port",                 WORD_NARROWS,   LISTEN | CONNECT | ACCEPT,  match_parse_port,      MATCH(FACT_PORT, match_port) },
	{ "device",               WORD_NARROWS,   DEVICE | CM,                match_parse_glob,      MATCH(FACT_DEVICE, match_device) },
	{ "ps",                   WORD_NARROWS,   CM,                         match_parse_ps,        MATCH(FACT_PS, match_ps) },
	{ "pkey",                 WORD_NARROWS,   CM,                         match_parse_pkey,      MATCH(FACT_PKEY, match_pkey) },
	{ "data",                 WORD_NARROWS,   ACCEPT,                     match_parse_data,      MATCH(FACT_DATA, match_data) },
	{ "peer-user",            WORD_ON_BOTH,   CONNECT | ACCEPT,           match_parse_user,      MATCH_WHO(match_peer_user) },
	{ "peer-group",           WORD_ON_BOTH,   CONNECT | ACCEPT,           match_parse_group,     MATCH_WHO(match_peer_group) },
	{ "peer-unit",            WORD_ON_BOTH,   CONNECT | ACCEPT,           match_parse_unit,      MATCH_WHO(match_peer_unit) },
	{ "peer-same",            WORD_ON_BOTH,   CONNECT | ACCEPT,           match_parse_same,      MATCH_WHO(match_peer_same) },
	{ "tos",                  WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_tos,     NUMBER(tos, 0, 255) },
	{ "dscp",                 WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_dscp,    OTHER },
	{ "tos-max",              WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_number,  NUMBER(tos_max, 0, 255) },
	{ "ack-timeout",          WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_number,  NUMBER(ack_timeout, 0, 31) },
	{ "min-rnr-timer",        WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_number,  NUMBER(min_rnr_timer, 0, 31) },
	{ "responder-resources",  WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_number,  NUMBER(responder_resources, 0, 255) },
	{ "initiator-depth",      WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_number,  NUMBER(initiator_depth, 0, 255) },
	{ "retry-count",          WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_number,  NUMBER(retry_count, 0, 7) },
	{ "rnr-retry-count",      WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_number,  NUMBER(rnr_retry_count, 0, 7) },
	{ "qp",                   WORD_ON_ALLOW,  CONNECT | ACCEPT,           setting_parse_name,    NAMED(qp, "'qp' takes own or reserved") },
	{ "reuseaddr",            WORD_ON_ALLOW,  LISTEN | CONNECT,           setting_parse_name,    NAMED(reuseaddr, "'reuseaddr' takes yes, no or client") },
	{ "access",               WORD_ON_ALLOW,  DEVICE,                     setting_parse_name,    NAMED(access, "'access' takes acl or open") },
	{ "backlog",              WORD_ON_ALLOW,  LISTEN,                     setting_parse_number,  NUMBER(backlog, 1, 65535) },
	{ "rate",                 WORD_ON_ALLOW,  COUNTED,                    setting_parse_rate,    RATE(rate) },
	{ "rate-per-user",        WORD_ON_ALLOW,  COUNTED,                    setting_parse_rate,    RATE(rate_per_user) },
	{ "rate-per-peer",        WORD_ON_ALLOW,  CONNECT | ACCEPT | JOIN,    setting_parse_rate,    RATE(rate_per_peer) },
	{ "burst",                WORD_ON_ALLOW,  COUNTED,                    setting_parse_burst,   OTHER },
	{ "max",                  WORD_ON_ALLOW,  COUNTED,                    setting_parse_number,  COUNT(max) },
	{ "max-per-user",         WORD_ON_ALLOW,  COUNTED,                    setting_parse_number,  COUNT(max_per_user) },
	{ "pending",              WORD_ON_ALLOW,  ACCEPT,                     setting_parse_number,  COUNT(pending) },
	{ "reason",               WORD_EXPLAINS,  ALL,                        setting_parse_reason,  OTHER },
	{ "log",                  WORD_ON_BOTH,   ALL,                        setting_parse_log,     OTHER },
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
