/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "policy/lexer.h"
#include "policy/parser.h"
#include "policy/rules.h"
#include "policy/source.h"
#include "policy/trial.h"
#include "policy/words.h"
#include "proto/addr.h"
#include "proto/pkey.h"
#include "proto/word.h"
#include "util/diag.h"
#include "util/util.h"

#define GIDS_MAX 1024

struct gids {
	size_t n;
	gid_t ids[GIDS_MAX];
};

/* A test, while its line is read. A fact of the peer that is not given is none, as that of the client. */
struct trial {
	struct policy_question question;
	struct policy_peer who; /* uid -1: it was not given */
	bool allow, warns; /* what is expected; WARNS: to be allowed by a warn rule */
	int tos; /* what is expected; -1: anything */
	const char *reason; /* what is expected; NULL: anything */
	struct gids gids, peer_gids;
	uint16_t pkey, path_pkey; /* 0: not given */
	struct sockaddr_storage local, peer; /* AF_UNSPEC: not given */
	/* bit i: row i of the table was given */
	unsigned given;
};

struct fact {
	const char *name;
	bool on_allow, on_reject;
	int (*take)(struct parser *parser, const struct fact *fact, void *ret);
	size_t offset; /* in struct trial, of what TAKE reads */
	uint32_t least, most; /* of a number */
};

static int take_number(struct parser *parser, const struct fact *fact, void *ret)
{
	return parser_take_number(parser, fact->name, fact->least, fact->most, ret);
}

static int take_gids(struct parser *parser, const struct fact *fact, void *ret)
{
	struct gids *gids = ret;
	uint32_t n;
	int r;

	do {
		if (parser->token->type == TOKEN_COMMA)
			parser_take(parser);
		if (gids->n == GIDS_MAX)
			return parser_complain(parser, parser->token,
					       "'%s' takes at most %d numbers", fact->name,
					       GIDS_MAX);
		r = parser_take_number(parser, fact->name, 0, UINT32_MAX - 1, &n);
		if (r == 0)
			gids->ids[gids->n++] = n;
	} while (r == 0 && parser->token->type == TOKEN_COMMA);
	policy_sort_gids(gids->ids, gids->n);
	return r;
}

static int take_text(struct parser *parser, const struct token *token, void *ret)
{
	char *text = policy_alloc(parser->policy, token->len + 1);

	if (!text)
		return -ENOMEM;
	token_unescape(token, text);
	*(const char **)ret = text;
	return 0;
}

static int take_name(struct parser *parser, const struct fact *fact, void *ret)
{
	const struct token *token = parser_take(parser);

	if (token->type != TOKEN_STRING && token->type != TOKEN_WORD)
		return parser_complain(parser, token, "'%s' takes a name", fact->name);
	return take_text(parser, token, ret);
}

static int take_reason(struct parser *parser, const struct fact *fact, void *ret)
{
	const struct token *token = parser_take(parser);

	if (token->type != TOKEN_STRING)
		return parser_complain(parser, token, "'%s' takes a text in double quotes",
				       fact->name);
	return take_text(parser, token, ret);
}

static int take_address(struct parser *parser, const struct fact *fact, void *ret)
{
	const struct token *token = parser_take(parser);
	char text[ADDR_HOST_STRLEN] = "";

	if (token->type == TOKEN_WORD && token->len < sizeof(text))
		memcpy(text, token->text, token->len);
	if (!addr_parse(ret, text, 0))
		return parser_complain(parser, token, "'%s' takes an IP address or gid:GID",
				       fact->name);
	return 0;
}

static int take_ps(struct parser *parser, const struct fact *fact, void *ret)
{
	union policy_value value;
	int r = match_parse_ps(parser, NULL, &value);

	if (r == 0)
		*(int *)ret = value.number;
	return r;
}

static int take_pkey(struct parser *parser, const struct fact *fact, void *ret)
{
	const struct token *token = parser_take(parser);
	uint32_t pkey;

	if (token->type != TOKEN_WORD || !pkey_parse(token->text, token->len, &pkey) ||
	    pkey_partition((uint16_t)pkey) == 0)
		return parser_complain(
			parser, token,
			"'%s' takes a P_Key from 1 to 0x7fff, or with the bit 0x8000", fact->name);
	*(uint16_t *)ret = pkey_partition((uint16_t)pkey);
	return 0;
}

static int take_data(struct parser *parser, const struct fact *fact, void *ret)
{
	struct policy_question *question = ret;
	union policy_value value;
	int r = match_parse_data(parser, NULL, &value);

	if (r < 0)
		return r;
	question->knows_data = true;
	question->data = value.data->bytes;
	question->data_len = value.data->len;
	return 0;
}

#define NAME(member) take_name, offsetof(struct trial, member), 0, 0
#define AT(member) offsetof(struct trial, member), 0, 0
#define NUMBER(member, least, most) take_number, offsetof(struct trial, member), least, most

static const struct fact facts[] = {
	{ "uid", true, true, NUMBER(question.uid, 0, UINT32_MAX - 1) },
	{ "gid", true, true, take_gids, AT(gids) },
	{ "unit", true, true, NAME(question.workload[WORKLOAD_UNIT]) },
	{ "container", true, true, NAME(question.workload[WORKLOAD_CONTAINER]) },
	{ "pod", true, true, NAME(question.workload[WORKLOAD_POD]) },
	{ "job", true, true, NAME(question.workload[WORKLOAD_JOB]) },
	{ "cgroup", true, true, NAME(question.workload[WORKLOAD_CGROUP]) },
	{ "local", true, true, take_address, AT(local) },
	{ "peer", true, true, take_address, AT(peer) },
	{ "port", true, true, NUMBER(question.port, 1, 65535) },
	{ "device", true, true, NAME(question.device) },
	{ "ps", true, true, take_ps, AT(question.port_space) },
	{ "pkey", true, true, take_pkey, AT(pkey) },
	{ "path-pkey", true, true, take_pkey, AT(path_pkey) },
	{ "data", true, true, take_data, AT(question) },
	{ "peer-uid", true, true, NUMBER(who.uid, 0, UINT32_MAX - 1) },
	{ "peer-gid", true, true, take_gids, AT(peer_gids) },
	{ "peer-unit", true, true, NAME(who.workload[WORKLOAD_UNIT]) },
	{ "peer-job", true, true, NAME(who.workload[WORKLOAD_JOB]) },
	{ "tos", true, false, NUMBER(tos, 0, 255) },
	{ "reason", false, true, take_reason, AT(reason) },
};

static int read_fact(struct parser *parser, struct trial *trial)
{
	const struct token *token = parser_take(parser);
	struct word_guess guess = { .word = token->text, .len = token->len };

	for (size_t i = 0; i < ELEMENTS_OF(facts) && token->type == TOKEN_WORD; i++) {
		const struct fact *fact = &facts[i];

		word_guess(&guess, fact->name);
		if (!token_is(token, fact->name))
			continue;
		if (trial->given & 1u << i)
			return parser_complain(parser, token, "'%s' occurs twice in this test",
					       fact->name);
		trial->given |= 1u << i;
		if (!trial->warns && !(trial->allow ? fact->on_allow : fact->on_reject))
			return parser_complain(parser, token, "'%s' is for tests that expect %s",
					       fact->name,
					       trial->allow ? "warn or reject" : "allow or warn");
		return fact->take(parser, fact, (char *)trial + fact->offset);
	}
	if (token->type == TOKEN_WORD && (token_is(token, "user") || token_is(token, "group")))
		return parser_complain(parser, token,
				       "a test has numbers of users and groups: 'uid', 'gid'");
	return parser_complain_unknown(parser, token, "word", guess.best, NULL);
}

static bool has_peer_fact(const struct trial *trial)
{
	return trial->peer_gids.n > 0 || *(trial->who.workload[WORKLOAD_UNIT] ?: "") ||
	       *(trial->who.workload[WORKLOAD_JOB] ?: "");
}

/* Reads the line of LEXER, at which PARSER is. */
static int read_trial(struct parser *parser, struct trial *trial)
{
	const struct token *first = parser_take(parser);
	int r;

	trial->warns = token_is(first, "warn");
	trial->allow = trial->warns || token_is(first, "allow");
	if (first->type != TOKEN_WORD || (!trial->allow && !token_is(first, "reject")))
		return parser_complain(parser, first,
				       "a test must begin with allow, warn or reject");
	r = grammar_take_operation(parser, _POLICY_OPERATION_MAX, &trial->question.operation);
	while (r == 0 && parser->token->type != TOKEN_END)
		r = read_fact(parser, trial);
	if (r == 0 && trial->question.uid == (uid_t)-1)
		r = parser_complain(parser, first, "the test has no uid");
	if (r == 0 && trial->who.uid == (uid_t)-1 && has_peer_fact(trial))
		r = parser_complain(parser, first,
				    "the test says who the peer is, but has no peer-uid");
	return r;
}

/* Writes what the policy decided to RET: "allowed by FILE:LINE". */
static void describe(const struct policy_verdict *verdict, char *ret, size_t size)
{
	const struct policy_rule *rule = verdict->rule;
	const char *what = policy_warns(verdict)           ? "allowed with a warning" :
			   verdict->answer == POLICY_ALLOW ? "allowed" :
							     "rejected";

	if (rule)
		snprintf(ret, size, "%s by %s:%u, \"%.100s\"", what, rule->file, rule->line,
			 rule->text);
	else
		snprintf(ret, size, "%s, because no rule matches", what);
}

/* The question, with what was read apart from it. */
static const struct policy_question *complete(struct trial *trial)
{
	struct policy_question *question = &trial->question;

	question->gids = trial->gids.ids;
	question->n_gids = trial->gids.n;
	trial->who.gids = trial->peer_gids.ids;
	trial->who.n_gids = trial->peer_gids.n;
	question->who = trial->who.uid != (uid_t)-1 ? &trial->who : NULL;
	/* AF_UNSPEC counts as not known. */
	question->local = (struct sockaddr *)&trial->local;
	question->peer = (struct sockaddr *)&trial->peer;
	policy_set_partition(question, trial->pkey, trial->path_pkey);
	return question;
}

static int judge(struct parser *parser, const struct token *token, const struct policy *policy,
		 struct trial *trial)
{
	const struct policy_question *question = complete(trial);
	struct policy_verdict verdict;
	char found[256];

	policy_decide(policy, question, &verdict);
	policy_check_port(question, &verdict);
	describe(&verdict, found, sizeof(found));
	if ((verdict.answer == POLICY_ALLOW) != trial->allow ||
	    (trial->warns && !policy_warns(&verdict)))
		return parser_complain(parser, token, "the test fails: it is %s", found);
	if (trial->tos >= 0 && verdict.rule->settings.tos != trial->tos)
		return parser_complain(parser, token, "the test fails: the TOS is %d, %s",
				       verdict.rule->settings.tos, found);
	if (trial->reason && strcmp(verdict.reason ?: "", trial->reason) != 0)
		return parser_complain(parser, token, "the test fails: the reason is \"%s\", %s",
				       verdict.reason ?: "", found);
	return 0;
}

static int run_line(struct parser *parser, const struct policy *policy)
{
	const struct token *token = parser->token;
	struct trial trial = {
		.tos = -1,
		.question = { .uid = (uid_t)-1, .port = -1 },
		.who.uid = (uid_t)-1,
	};
	int r;

	for (int i = 0; i < _WORKLOAD_MAX; i++)
		trial.question.workload[i] = trial.who.workload[i] = "";
	r = read_trial(parser, &trial);
	return r == 0 ? judge(parser, token, policy, &trial) : r;
}

/* Takes SOURCE. */
static int run(const struct policy *policy, struct source *source, size_t *n_tests,
	       struct diag *diag)
{
	struct policy *texts = NULL;
	struct parser parser;
	struct lexer lexer;
	bool failed = false;
	int r;

	/* Keeps the texts of the tests. */
	r = policy_new(&texts);
	if (r < 0) {
		source_free(source);
		return r;
	}
	parser_init(&parser, texts, POLICY_NAMES_MUST_EXIST, diag);
	parser.file = source_name(source);
	lexer_init(&lexer, source, diag);
	while ((r = lexer_next(&lexer)) != 0) {
		if (r > 0) {
			parser.token = lexer.tokens;
			parser.is_line_bad = false;
			++*n_tests;
			r = run_line(&parser, policy);
			if (r == 0 && parser.is_line_bad)
				r = -EBADMSG;
		}
		failed = failed || r == -EBADMSG;
		if (r < 0 && r != -EBADMSG)
			break;
	}
	lexer_done(&lexer);
	source_free(source);
	policy_unref(texts);
	return r < 0 && r != -EBADMSG ? r : failed ? -EBADMSG : 0;
}

int trial_run(const struct policy *policy, const char *file, size_t *n_tests, struct diag *diag)
{
	struct source *source;
	int r = source_new_file(&source, file, /* optional= */ false, diag);

	return r < 0 ? r : run(policy, source, n_tests, diag);
}

int trial_run_text(const struct policy *policy, const char *name, const char *text, size_t len,
		   size_t *n_tests, struct diag *diag)
{
	struct source *source;
	int r = source_new_text(&source, name, text, len, diag);

	return r < 0 ? r : run(policy, source, n_tests, diag);
}
