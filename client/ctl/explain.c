/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "proto/addr.h"
#include "question.h"
#include "who.h"

/*
 * The verb explain: what policy would decide, asked of the running daemon, and so by the rules in force. question.c
 * makes the question from the options.
 */

static bool is_loopback(const struct sockaddr_storage *addr)
{
	return addr->ss_family && addr_is_loopback((const struct sockaddr *)addr);
}

/* A note on users that need no rule, or on what fails whatever the rules are; NULL: none. */
static const char *get_note(const struct question *question)
{
	if (is_loopback(&question->local) || is_loopback(&question->peer))
		return "no RDMA device has the loopback address";
	if (strcmp(question->public.operation, "admin") == 0)
		return "root and the daemon's own user are admins without a rule";
	if (strcmp(question->public.operation, "observe") == 0)
		return "root, the daemon's own user and users whom a rule allows admin need no rule";
	return NULL;
}

static const struct column rule_columns[] = {
	{ NULL, "file", COLUMN_OF(struct rdmabroker_rule, file) },
	{ NULL, "line", COLUMN_OF(struct rdmabroker_rule, line) },
	{ NULL, "text", COLUMN_OF(struct rdmabroker_rule, text) },
	{ NULL },
};

static const struct column peer_columns[] = {
	{ NULL, "uid", COLUMN_OF(struct rdmabroker_who, uid) },
	{ NULL, "gids", .json = who_json_gids },
	{ NULL, "unit", COLUMN_OF(struct rdmabroker_who, unit) },
	{ NULL, "job", COLUMN_OF(struct rdmabroker_who, job) },
	{ NULL },
};

static void json_depends(struct jsonout *json, const struct rdmabroker_rule *depends,
			 const struct question *question)
{
	const char *missing[MAX_OPTIONS];

	if (!depends) {
		jsonout_null(json, "depends");
		return;
	}
	jsonout_open(json, "depends", '{');
	json_members(json, rule_columns, depends);
	json_texts(json, "missing", missing,
		   question_find_missing(question, depends->text, missing));
	jsonout_close(json, '}');
}

static void print_as_json(const struct question *question,
			  const struct rdmabroker_explanation *explanation)
{
	struct jsonout json;

	json_begin(&json);
	jsonout_string(&json, "answer", explanation->allow ? "allow" : "reject");
	jsonout_bool(&json, "warns", explanation->warns);
	jsonout_string(&json, "reason", explanation->reason);
	jsonout_string(&json, "operation", question->public.operation);
	jsonout_number(&json, "uid", question->public.who.uid);
	who_json_gids(&question->public.who, &json, "gids");
	json_row(&json, "peer_identity", peer_columns, question->public.peer_who);
	json_row(&json, "rule", rule_columns, explanation->rule);
	json_texts(&json, "effects", explanation->effects, explanation->n_effects);
	json_depends(&json, explanation->depends, question);
	jsonout_bool(&json, "asks", explanation->asks);
	jsonout_number(&json, "charged_uid", explanation->charged_uid);
	jsonout_string(&json, "note", get_note(question));
	json_end(&json);
}

static void print_ids(const char *label, const struct rdmabroker_who *who)
{
	printf("%9s: uid %u, ", label, who->uid);
	if (who->n_gids == 0)
		printf("no groups");
	for (size_t i = 0; i < who->n_gids; i++)
		printf("%s%u", i == 0 ? "gids " : ",", who->gids[i]);
}

static void print_who(const struct rdmabroker_question *question, uint32_t charged_uid)
{
	const struct rdmabroker_who *peer = question->peer_who;

	print_ids("who", &question->who);
	if (charged_uid != question->who.uid)
		printf("; uid %u is charged", charged_uid);
	putchar('\n');
	if (!peer)
		return;
	print_ids("peer is", peer);
	if (peer->unit)
		printf(", unit %s", escaped(peer->unit));
	if (peer->job)
		printf(", job %s", escaped(peer->job));
	putchar('\n');
}

static void print_rule(const char *label, const struct rdmabroker_rule *rule)
{
	printf("%9s: %s:%u\n%11s%s\n", label, escaped(rule->file), rule->line, "",
	       escaped(rule->text));
}

/*
 * Prints the rule that depends on unknown members, and the options for these members. This rule decides but might not
 * match, or it might match before the rule that decides.
 */
static void print_depends(const struct question *question,
			  const struct rdmabroker_explanation *explanation)
{
	const struct rdmabroker_rule *depends = explanation->depends, *rule = explanation->rule;
	bool decides = rule && strcmp(rule->file, depends->file) == 0 &&
		       rule->line == depends->line;
	const char *missing[MAX_OPTIONS];
	size_t n = question_find_missing(question, depends->text, missing);

	print_rule("depends", depends);
	printf("%11smay %s", "", decides ? "not match" : "match first");
	for (size_t i = 0; i < n; i++)
		printf("%s--%s", i == 0 ? "; to find out, give " : ", ", missing[i]);
	putchar('\n');
	if (explanation->asks)
		printf("%11sthe daemon asks the peer's host; without an answer, it decides as "
		       "shown\n",
		       "");
}

static void print_text(const struct question *question,
		       const struct rdmabroker_explanation *explanation)
{
	const char *note = get_note(question);

	if (explanation->warns)
		printf("%sallow, but only by a warn rule%s%s%s\n", colour(COLOUR_YELLOW),
		       explanation->reason ? ": " : "", escaped(explanation->reason ?: ""),
		       colour(COLOUR_NONE));
	else if (explanation->allow)
		printf("%sallow%s\n", colour(COLOUR_GREEN), colour(COLOUR_NONE));
	else
		printf("%sreject: %s%s\n", colour(COLOUR_RED), escaped(explanation->reason ?: ""),
		       colour(COLOUR_NONE));
	print_who(&question->public, explanation->charged_uid);
	if (explanation->rule)
		print_rule("rule", explanation->rule);
	else
		printf("%9s: no rule matches\n", "rule");
	for (size_t i = 0; i < explanation->n_effects; i++)
		printf("%9s%c %s\n", i == 0 ? "sets" : "", i == 0 ? ':' : ' ',
		       escaped(explanation->effects[i]));
	if (explanation->depends)
		print_depends(question, explanation);
	if (note)
		printf("%9s: %s\n", "note", note);
}

int verb_explain(struct ctl *ctl)
{
	struct rdmabroker_explanation *explanation;
	struct question question;
	int status;

	question_read(&question, ctl, ctl->arguments[0]);
	ctl_open_session(ctl, /* as_admin= */ true);
	ctl_check(ctl, rdmabroker_explain(ctl->session, &question.public, &explanation));
	(ctl->json ? print_as_json : print_text)(&question, explanation);
	status = explanation->allow ? EXIT_SUCCESS : EXIT_REJECT;
	rdmabroker_free(explanation);
	return status;
}
