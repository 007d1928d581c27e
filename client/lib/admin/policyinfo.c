/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pages.h"
#include "client/lib/wire/sessionparts.h"

/* For admins: list the rules, explain a decision, reload. */

static void in_rule(struct rdmabroker_rule *ret, const Rdmabroker__Rule *in)
{
	*ret = (struct rdmabroker_rule){
		.file = in->file[0] ? in->file : NULL,
		.line = in->line,
		.text = in->text,
		.n_allowed = in->allowed,
		.n_rejected = in->rejected,
		.n_busy = in->busy,
		.n_now = in->now,
		.n_pending = in->pending,
	};
}

/* Rules: they point into the messages that brought them, so the frames are kept as long as the list. */

struct rules {
	size_t n, room;
	Rdmabroker__Frame **frames;
	size_t n_frames;
	struct rdmabroker_rule rules[];
};

static struct rules *rules_of(struct rdmabroker_rule *rules)
{
	return (struct rules *)((char *)rules - offsetof(struct rules, rules));
}

static void rules_free(struct rules *rules)
{
	if (!rules)
		return;
	for (size_t i = 0; i < rules->n_frames; i++)
		frame_free(rules->frames[i]);
	free(rules->frames);
	free(rules);
}

/* Takes FRAME over, also on failure. */
static int rules_add(struct rules **rules, Rdmabroker__Frame *frame)
{
	const Rdmabroker__ListRulesResult *in = frame->reply->list_rules;
	size_t n = (*rules ? (*rules)->n : 0) + in->n_rules;
	Rdmabroker__Frame **frames;
	struct rules *grown = *rules;

	if (!grown || n > grown->room) {
		grown = realloc(*rules, sizeof(*grown) + 2 * n * sizeof(grown->rules[0]));
		if (!grown) {
			frame_free(frame);
			return fail(ENOMEM, "get_rules: out of memory");
		}
		if (!*rules)
			*grown = (struct rules){ 0 };
		grown->room = 2 * n;
		*rules = grown;
	}
	frames = pages_keep(grown->frames, grown->n_frames, frame);
	if (!frames)
		return fail(ENOMEM, "get_rules: out of memory");
	grown->frames = frames;
	grown->n_frames++;
	for (size_t i = 0; i < in->n_rules; i++)
		in_rule(&grown->rules[grown->n++], in->rules[i]);
	return 0;
}

int rdmabroker_get_rules(struct rdmabroker *session, struct rdmabroker_rule **ret, size_t *ret_n)
{
	Rdmabroker__ListRules m = RDMABROKER__LIST_RULES__INIT;
	REQUEST(request, LIST_RULES, list_rules, &m);
	struct rules *rules = NULL;
	struct pages pages;
	size_t n, total;
	int r;

	pages_init(&pages, &session->wire, "get_rules");
	do {
		Rdmabroker__Frame *frame;

		m.first = rules ? (uint32_t)rules->n : 0;
		r = pages_get(&pages, &request, RDMABROKER__REPLY__RESULT_LIST_RULES, &frame);
		if (r < 0)
			break;
		n = frame->reply->list_rules->n_rules;
		total = frame->reply->list_rules->total;
		r = rules_add(&rules, frame);
		if (r == 0 && n == 0 && rules->n < total)
			r = pages_fail(&pages);
	} while (r == 0 && rules->n < total);
	if (r < 0) {
		rules_free(rules);
		return r;
	}
	*ret = rules->rules;
	*ret_n = rules->n;
	return 0;
}

struct rdmabroker_rule *rdmabroker_free_rules(struct rdmabroker_rule *rules)
{
	rules_free(rules ? rules_of(rules) : NULL);
	return NULL;
}

/* Explanations */

struct explanation {
	struct rdmabroker_explanation public;
	Rdmabroker__Frame *frame;
	struct rdmabroker_rule rule, depends;
};

static int out_question(Rdmabroker__Explain *m, const struct rdmabroker_question *question,
			Rdmabroker__Address *local, Rdmabroker__Address *peer)
{
	int r = 0;

	if (question->size != sizeof(*question))
		return fail(EINVAL,
			    "explain: question.size is not sizeof(struct rdmabroker_question)");
	if (!question->operation)
		return fail(EINVAL, "explain: the operation is missing");
	if (question->local)
		r = message_put_address(local, question->local);
	if (r == 0 && question->peer)
		r = message_put_address(peer, question->peer);
	if (r < 0)
		return r;
	m->operation = (char *)question->operation;
	m->uid = question->uid;
	m->gids = (uint32_t *)question->gids;
	m->n_gids = question->n_gids;
	m->local = question->local ? local : NULL;
	m->peer = question->peer ? peer : NULL;
	m->port = question->port;
	m->port_space = question->ps;
	if (question->device)
		m->device = (char *)question->device;
	if (question->unit)
		m->unit = (char *)question->unit;
	m->knows_data = question->data != NULL;
	m->data.data = (uint8_t *)question->data;
	m->data.len = question->data ? question->data_len : 0;
	return 0;
}

int rdmabroker_explain(struct rdmabroker *session, const struct rdmabroker_question *question,
		       struct rdmabroker_explanation **ret)
{
	Rdmabroker__Explain m = RDMABROKER__EXPLAIN__INIT;
	REQUEST(request, EXPLAIN, explain, &m);
	const Rdmabroker__ExplainResult *in;
	struct explanation *explanation;
	Rdmabroker__Address local, peer;
	Rdmabroker__Frame *frame;
	int r = out_question(&m, question, &local, &peer);

	if (r == 0)
		r = call_wait_for(&session->wire, "explain", &request,
				  RDMABROKER__REPLY__RESULT_EXPLAIN, &frame);
	if (r < 0)
		return r;
	explanation = calloc(1, sizeof(*explanation));
	if (!explanation) {
		frame_free(frame);
		return fail(ENOMEM, "explain: out of memory");
	}
	in = frame->reply->explain;
	explanation->frame = frame;
	explanation->public = (struct rdmabroker_explanation){
		.allow = in->allow,
		.reason = in->reason[0] ? in->reason : NULL,
		.n_effects = in->n_effects,
		.effects = (const char *const *)in->effects,
		.rule = in->rule ? &explanation->rule : NULL,
		.depends = in->depends ? &explanation->depends : NULL,
	};
	if (in->rule)
		in_rule(&explanation->rule, in->rule);
	if (in->depends)
		in_rule(&explanation->depends, in->depends);
	*ret = &explanation->public;
	return 0;
}

struct rdmabroker_explanation *rdmabroker_free_explanation(struct rdmabroker_explanation *public)
{
	/* The public struct is the first member. */
	struct explanation *explanation = (struct explanation *)public;

	if (explanation) {
		frame_free(explanation->frame);
		free(explanation);
	}
	return NULL;
}

/* Reload */

struct reload_result {
	struct rdmabroker_reload_result public;
	Rdmabroker__Frame *frame;
};

int rdmabroker_reload(struct rdmabroker *session, struct rdmabroker_reload_result **ret)
{
	Rdmabroker__Reload m = RDMABROKER__RELOAD__INIT;
	REQUEST(request, RELOAD, reload, &m);
	const Rdmabroker__ReloadResult *in;
	struct reload_result *result;
	Rdmabroker__Frame *frame;
	int r = call_wait_for(&session->wire, "reload", &request, RDMABROKER__REPLY__RESULT_RELOAD,
			      &frame);

	if (r < 0)
		return r;
	result = calloc(1, sizeof(*result));
	if (!result) {
		frame_free(frame);
		return fail(ENOMEM, "reload: out of memory");
	}
	in = frame->reply->reload;
	result->frame = frame;
	result->public = (struct rdmabroker_reload_result){
		.ok = in->ok,
		.n_rules = in->rules,
		.n_complaints = in->n_complaints,
		.complaints = (const char *const *)in->complaints,
	};
	*ret = &result->public;
	return 0;
}

struct rdmabroker_reload_result *
rdmabroker_free_reload_result(struct rdmabroker_reload_result *public)
{
	/* The public struct is the first member. */
	struct reload_result *result = (struct reload_result *)public;

	if (result) {
		frame_free(result->frame);
		free(result);
	}
	return NULL;
}
