/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/admin.h"
#include "client/lib/admin/peeridentity.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pages.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"

/* The calls get_rules and explain (for observers) and reload (for admins). */

static void in_rule(struct rdmabroker_rule *ret, const Rdmabroker__Rule *in)
{
	*ret = (struct rdmabroker_rule){
		.size = sizeof(*ret),
		.file = message_get_text(in->file),
		.line = in->line,
		.text = in->text,
		.n_allowed = in->allowed,
		.n_rejected = in->rejected,
		.n_busy = in->busy,
		.n_now = in->now,
		.n_pending = in->pending,
		.n_warned = in->warned,
	};
}

/* PUBLIC points into PAGES, the replies, which are freed together with it. */
struct rules {
	struct rdmabroker_rules public;
	struct page_list pages;
	size_t n_rules;
	struct rdmabroker_rule **rules;
};

static void rules_free(struct rules *rules)
{
	page_list_free(&rules->pages);
	free(rules->rules);
	free(rules);
}

static int rules_fill(struct rules *rules)
{
	size_t n = 0;

	rules->rules = sized_new_array(rules->n_rules, sizeof(**rules->rules));
	if (!rules->rules)
		return fail(ENOMEM, "get_rules: out of memory");
	for (size_t i = 0; i < rules->pages.n; i++) {
		const Rdmabroker__ListRulesResult *in = rules->pages.pages[i]->reply->list_rules;

		for (size_t k = 0; k < in->n_rules; k++)
			in_rule(rules->rules[n++], in->rules[k]);
	}
	rules->public = (struct rdmabroker_rules){
		.size = sizeof(rules->public),
		.n_rules = rules->n_rules,
		.rules = (const struct rdmabroker_rule *const *)rules->rules,
	};
	return 0;
}

static int get_pages(struct rdmabroker *session, struct rules *rules)
{
	REQUEST(request, m, ListRules, LIST_RULES, list_rules);
	struct pages pages;
	size_t n, total;
	int r;

	pages_init(&pages, &session->wire, "get_rules");
	do {
		Rdmabroker__Frame *page;

		m.first = (uint32_t)rules->n_rules;
		r = pages_get(&pages, &request, RDMABROKER__REPLY__RESULT_LIST_RULES, &page);
		if (r < 0)
			break;
		n = page->reply->list_rules->n_rules;
		total = page->reply->list_rules->total;
		rules->n_rules += n;
		r = page_list_add(&rules->pages, page, pages.name);
		if (r == 0 && n == 0 && rules->n_rules < total)
			r = pages_fail(&pages);
	} while (r == 0 && rules->n_rules < total);
	return r;
}

int rdmabroker_get_rules(struct rdmabroker *session, struct rdmabroker_rules **ret)
{
	struct rules *rules = calloc(1, sizeof(*rules));
	int r;

	if (!rules)
		return fail(ENOMEM, "get_rules: out of memory");
	r = get_pages(session, rules);
	if (r == 0)
		r = rules_fill(rules);
	if (r < 0) {
		rules_free(rules);
		return r;
	}
	*ret = &rules->public;
	return 0;
}

struct rdmabroker_rules *rdmabroker_free_rules(struct rdmabroker_rules *public)
{
	if (public)
		rules_free((struct rules *)public);
	return NULL;
}

struct explanation {
	struct rdmabroker_explanation public;
	Rdmabroker__Frame *frame;
	struct rdmabroker_rule rule, depends;
};

/* The parts of an Explain message. */
struct parts {
	Rdmabroker__Workload workload, peer_workload;
	Rdmabroker__PeerIdentity peer_identity;
	Rdmabroker__Address local, peer;
};

static int out_question(Rdmabroker__Explain *m, const struct rdmabroker_question *from_program,
			struct parts *parts)
{
	struct rdmabroker_question question = RDMABROKER_QUESTION_INIT;
	int r = SIZED_TAKE(&question, from_program, "explain", rdmabroker_question, data_len,
			   peer_identity);

	if (r < 0)
		return r;
	if (question.operation < RDMABROKER_OPERATION_SESSION ||
	    question.operation > RDMABROKER_OPERATION_ADMIN)
		return fail(EINVAL, "explain: question.operation is %d, an unknown value",
			    (int)question.operation);
	if (question.local)
		r = message_put_address(&parts->local, question.local);
	if (r == 0 && question.peer)
		r = message_put_address(&parts->peer, question.peer);
	if (r == 0 && question.peer_identity)
		r = peeridentity_put(&parts->peer_identity, &parts->peer_workload,
				     question.peer_identity, "explain");
	if (r < 0)
		return r;
	m->operation = (char *)rdmabroker_operation_str(question.operation);
	m->uid = question.uid;
	m->gids = (uint32_t *)question.gids;
	m->n_gids = question.n_gids;
	m->local = question.local ? &parts->local : NULL;
	m->peer = question.peer ? &parts->peer : NULL;
	m->peer_identity = question.peer_identity ? &parts->peer_identity : NULL;
	m->port = question.port;
	m->port_space = question.ps;
	m->device = message_put_text(question.device);
	m->unit = message_put_text(question.unit);
	rdmabroker__workload__init(&parts->workload);
	parts->workload.container = message_put_text(question.container);
	parts->workload.pod = message_put_text(question.pod);
	parts->workload.job = message_put_text(question.job);
	parts->workload.cgroup = message_put_text(question.cgroup);
	m->workload = &parts->workload;
	m->knows_data = question.data != NULL;
	m->data.data = (uint8_t *)question.data;
	m->data.len = question.data ? question.data_len : 0;
	return 0;
}

int rdmabroker_explain(struct rdmabroker *session, const struct rdmabroker_question *question,
		       struct rdmabroker_explanation **ret)
{
	REQUEST(request, m, Explain, EXPLAIN, explain);
	const Rdmabroker__ExplainResult *in;
	struct explanation *explanation;
	Rdmabroker__Frame *frame;
	struct parts parts;
	int r = out_question(&m, question, &parts);

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
		.size = sizeof(explanation->public),
		.allow = in->allow,
		.reason = message_get_text(in->reason),
		.n_effects = in->n_effects,
		.effects = (const char *const *)in->effects,
		.rule = in->rule ? &explanation->rule : NULL,
		.depends = in->depends ? &explanation->depends : NULL,
		.asks = in->asks,
		.warns = in->warns,
		.charged_uid = in->charged_uid ?: question->uid,
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
	struct explanation *explanation = (struct explanation *)public;

	if (explanation) {
		frame_free(explanation->frame);
		free(explanation);
	}
	return NULL;
}

struct reload_result {
	struct rdmabroker_reload_result public;
	Rdmabroker__Frame *frame;
};

static int reload(struct rdmabroker *session, const char *name, Rdmabroker__Request *request,
		  struct rdmabroker_reload_result **ret)
{
	const Rdmabroker__ReloadResult *in;
	struct reload_result *result;
	Rdmabroker__Frame *frame;
	int r = call_wait_for(&session->wire, name, request, RDMABROKER__REPLY__RESULT_RELOAD,
			      &frame);

	if (r < 0)
		return r;
	result = calloc(1, sizeof(*result));
	if (!result) {
		frame_free(frame);
		return fail(ENOMEM,
			    "%s: the broker has replied, but there is no memory for the reply",
			    name);
	}
	in = frame->reply->reload;
	result->frame = frame;
	result->public = (struct rdmabroker_reload_result){
		.size = sizeof(result->public),
		.ok = in->ok,
		.n_rules = in->rules,
		.n_complaints = in->n_complaints,
		.complaints = (const char *const *)in->complaints,
		.dry_run = in->dry_run,
	};
	*ret = &result->public;
	return 0;
}

int rdmabroker_reload(struct rdmabroker *session, struct rdmabroker_reload_result **ret)
{
	REQUEST(request, m, Reload, RELOAD, reload);

	return reload(session, "reload", &request, ret);
}

int rdmabroker_try_reload(struct rdmabroker *session, struct rdmabroker_reload_result **ret)
{
	REQUEST(request, m, TryReload, TRY_RELOAD, try_reload);

	return reload(session, "try_reload", &request, ret);
}

struct rdmabroker_reload_result *
rdmabroker_free_reload_result(struct rdmabroker_reload_result *public)
{
	struct reload_result *result = (struct reload_result *)public;

	if (result) {
		frame_free(result->frame);
		free(result);
	}
	return NULL;
}
