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
#include "proto/names.h"
#include "proto/word.h"
#include "util/diag.h"

#define GIDS_MAX 1024

/* A test, while its line is read. */
struct trial {
	struct policy_question question;
	bool allow, warns; /* what is expected; WARNS: to be allowed by a warn rule */
	int tos; /* what is expected; -1: anything */
	const char *reason; /* what is expected; NULL: anything */
	bool has_uid;
	gid_t gids[GIDS_MAX];
	struct policy_peer who; /* if question.who is set */
	gid_t peer_gids[GIDS_MAX];
	struct sockaddr_storage local, peer;
	/* bit i: row i of the table was given */
	unsigned given;
};

struct fact {
	const char *name;
	bool on_allow, on_reject;
	int (*take)(struct parser *parser, const struct fact *fact, struct trial *trial);
	int which; /* enum workload_name */
};

static int take_uid(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	uint32_t n;
	int r = parser_take_number(parser, fact->name, 0, UINT32_MAX - 1, &n);

	if (r == 0) {
		trial->question.uid = n;
		trial->has_uid = true;
	}
	return r;
}

static int take_gids(struct parser *parser, const struct fact *fact, gid_t *gids, size_t *n_gids)
{
	uint32_t n;
	int r;

	do {
		if (parser->token->type == TOKEN_COMMA)
			parser_take(parser);
		if (*n_gids == GIDS_MAX)
			return parser_complain(parser, parser->token,
					       "'%s' takes at most %d numbers", fact->name,
					       GIDS_MAX);
		r = parser_take_number(parser, fact->name, 0, UINT32_MAX - 1, &n);
		if (r == 0)
			gids[(*n_gids)++] = n;
	} while (r == 0 && parser->token->type == TOKEN_COMMA);
	policy_sort_gids(gids, *n_gids);
	return r;
}

static int take_gid(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	return take_gids(parser, fact, trial->gids, &trial->question.n_gids);
}

/* NULL: a complaint was added, or there is no memory (*RET_R). */
static const char *take_text(struct parser *parser, const struct fact *fact, bool quoted,
			     int *ret_r)
{
	const struct token *token = parser_take(parser);
	char *text;

	if (token->type != TOKEN_STRING && (quoted || token->type != TOKEN_WORD)) {
		*ret_r = parser_complain(parser, token, "'%s' takes a %s", fact->name,
					 quoted ? "text in double quotes" : "name");
		return NULL;
	}
	text = policy_alloc(parser->policy, token->len + 1);
	*ret_r = text ? 0 : -ENOMEM;
	if (text)
		token_unescape(token, text);
	return text;
}

static int take_workload(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	int r;

	trial->question.workload[fact->which] = take_text(parser, fact, /* quoted= */ false, &r);
	return r;
}

static int take_device(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	int r;

	trial->question.device = take_text(parser, fact, /* quoted= */ false, &r);
	return r;
}

static int take_reason(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	int r;

	trial->reason = take_text(parser, fact, /* quoted= */ true, &r);
	return r;
}

static int take_address(struct parser *parser, const struct fact *fact,
			struct sockaddr_storage *ret)
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

static int take_local(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	trial->question.local = (struct sockaddr *)&trial->local;
	return take_address(parser, fact, &trial->local);
}

static int take_peer(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	trial->question.peer = (struct sockaddr *)&trial->peer;
	return take_address(parser, fact, &trial->peer);
}

static int take_port(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	uint32_t n;
	int r = parser_take_number(parser, fact->name, 1, 65535, &n);

	if (r == 0)
		trial->question.port = (int)n;
	return r;
}

static int take_ps(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	union policy_value value;
	int r = match_parse_ps(parser, NULL, &value);

	if (r == 0)
		trial->question.port_space = value.number;
	return r;
}

static int take_data(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	union policy_value value;
	int r = match_parse_data(parser, NULL, &value);

	if (r < 0)
		return r;
	trial->question.knows_data = true;
	trial->question.data = value.data->bytes;
	trial->question.data_len = value.data->len;
	return 0;
}

static int take_tos(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	uint32_t n;
	int r = parser_take_number(parser, fact->name, 0, 255, &n);

	if (r == 0)
		trial->tos = (int)n;
	return r;
}

/* Who the peer is. A fact that is not given is none, as that of the client. */

static int take_peer_uid(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	uint32_t n;
	int r = parser_take_number(parser, fact->name, 0, UINT32_MAX - 1, &n);

	if (r < 0)
		return r;
	trial->who.uid = n;
	trial->question.who = &trial->who;
	return 0;
}

static int take_peer_gid(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	return take_gids(parser, fact, trial->peer_gids, &trial->who.n_gids);
}

static int take_peer_workload(struct parser *parser, const struct fact *fact, struct trial *trial)
{
	int r;

	trial->who.workload[fact->which] = take_text(parser, fact, /* quoted= */ false, &r);
	return r;
}

static const struct fact facts[] = {
	{ "uid", true, true, take_uid, 0 },
	{ "gid", true, true, take_gid, 0 },
	{ "unit", true, true, take_workload, WORKLOAD_UNIT },
	{ "container", true, true, take_workload, WORKLOAD_CONTAINER },
	{ "pod", true, true, take_workload, WORKLOAD_POD },
	{ "job", true, true, take_workload, WORKLOAD_JOB },
	{ "cgroup", true, true, take_workload, WORKLOAD_CGROUP },
	{ "local", true, true, take_local, 0 },
	{ "peer", true, true, take_peer, 0 },
	{ "port", true, true, take_port, 0 },
	{ "device", true, true, take_device, 0 },
	{ "ps", true, true, take_ps, 0 },
	{ "data", true, true, take_data, 0 },
	{ "peer-uid", true, true, take_peer_uid, 0 },
	{ "peer-gid", true, true, take_peer_gid, 0 },
	{ "peer-unit", true, true, take_peer_workload, WORKLOAD_UNIT },
	{ "peer-job", true, true, take_peer_workload, WORKLOAD_JOB },
	{ "tos", true, false, take_tos, 0 },
	{ "reason", false, true, take_reason, 0 },
};

#define N_FACTS (sizeof(facts) / sizeof(facts[0]))

static int read_fact(struct parser *parser, struct trial *trial)
{
	const struct token *token = parser_take(parser);
	struct word_guess guess = { .word = token->text, .len = token->len };

	for (size_t i = 0; i < N_FACTS && token->type == TOKEN_WORD; i++) {
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
		return fact->take(parser, fact, trial);
	}
	if (token->type == TOKEN_WORD && (token_is(token, "user") || token_is(token, "group")))
		return parser_complain(parser, token,
				       "a test has numbers of users and groups: 'uid', 'gid'");
	return parser_complain_unknown(parser, token, "word", guess.best, NULL);
}

static int read_operation(struct parser *parser, struct trial *trial)
{
	const struct token *token = parser_take(parser);
	struct word_guess guess = { .word = token->text, .len = token->len };

	for (unsigned i = 0; i < _POLICY_OPERATION_MAX && token->type == TOKEN_WORD; i++) {
		if (token_is(token, operation_names[i])) {
			trial->question.operation = i;
			return 0;
		}
		word_guess(&guess, operation_names[i]);
	}
	return parser_complain_unknown(parser, token, "operation", guess.best,
				       "session, device, listen, connect, accept, join, observe, "
				       "admin");
}

static bool has_peer_fact(const struct trial *trial)
{
	return trial->who.n_gids > 0 || *(trial->who.workload[WORKLOAD_UNIT] ?: "") ||
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
	r = read_operation(parser, trial);
	while (r == 0 && parser->token->type != TOKEN_END)
		r = read_fact(parser, trial);
	if (r == 0 && !trial->has_uid)
		r = parser_complain(parser, first, "the test has no uid");
	if (r == 0 && !trial->question.who && has_peer_fact(trial))
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

static int judge(struct parser *parser, const struct token *token, const struct policy *policy,
		 struct trial *trial)
{
	struct policy_verdict verdict;
	char found[256];

	trial->question.gids = trial->gids;
	trial->who.gids = trial->peer_gids;
	policy_decide(policy, &trial->question, &verdict);
	policy_check_port(&trial->question, &verdict);
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
	struct trial trial = { .tos = -1, .question.port = -1 };
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
