/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/admin.h"
#include "client/lib/admin/replies.h"
#include "client/lib/admin/who.h"
#include "client/lib/wire/message.h"

/* The calls get_rules and explain (for observers) and reload (for admins). */

static void in_rule(struct rdmabroker_rule *ret, const Rdmabroker__Rule *in)
{
	*ret = (struct rdmabroker_rule){
		.file = message_get_text(in->file),
		.line = in->line,
		.text = in->text,
		.n_allowed = in->allowed,
		.n_rejected = in->rejected,
		.n_busy = in->busy,
		.n_warned = in->warned,
		.n_now = in->now,
		.n_pending = in->pending,
	};
}

static int next(const Rdmabroker__Reply *reply, Rdmabroker__Request *request)
{
	const Rdmabroker__ListRulesResult *in = reply->list_rules;
	Rdmabroker__ListRules *m = request->list_rules;

	m->first += (uint32_t)in->n_rules;
	return m->first >= in->total ? 0 : in->n_rules > 0 ? 1 : -EPROTO;
}

int rdmabroker_get_rules(struct rdmabroker *session, struct rdmabroker_rules **ret)
{
	REQUEST(request, m, ListRules, LIST_RULES, list_rules);
	struct rdmabroker_rules *rules;
	struct replies replies;
	int r = replies_get(&replies, session, "get_rules", &request,
			    RDMABROKER__REPLY__RESULT_LIST_RULES, next);

	if (r < 0)
		return r;
	/* FIRST is behind the last rule now. */
	rules = replies_keep(&replies, sizeof(*rules) + m.first * sizeof(*rules->list));
	if (!rules)
		return -ENOMEM;
	rules->list = (void *)(rules + 1);
	for (size_t i = 0; i < replies.n; i++) {
		const Rdmabroker__ListRulesResult *in = replies.list[i]->reply->list_rules;

		for (size_t k = 0; k < in->n_rules; k++)
			in_rule(&rules->list[rules->n++], in->rules[k]);
	}
	*ret = rules;
	return 0;
}

int rdmabroker_explain(struct rdmabroker *session, const struct rdmabroker_question *question,
		       struct rdmabroker_explanation **ret)
{
	REQUEST(request, m, Explain, EXPLAIN, explain);
	Rdmabroker__Workload workload, peer_workload;
	Rdmabroker__PeerIdentity peer_identity;
	const struct rdmabroker_who *who = &question->who;
	struct rdmabroker_explanation *explanation;
	const Rdmabroker__ExplainResult *in;
	Rdmabroker__Address local, peer;
	struct rdmabroker_rule *rules;
	struct replies replies;
	int r = 0;

	if (question->local)
		r = message_put_address(m.local = &local, question->local);
	if (r == 0 && question->peer)
		r = message_put_address(m.peer = &peer, question->peer);
	if (r < 0)
		return r;
	m.operation = message_put_text(question->operation);
	m.uid = who->uid;
	m.gids = (uint32_t *)who->gids;
	m.n_gids = who->n_gids;
	m.unit = message_put_text(who->unit);
	m.workload = who_put(&workload, who);
	m.peer_identity = who_put_identity(&peer_identity, &peer_workload, question->peer_who);
	m.port = question->port;
	m.port_space = question->ps;
	m.device = message_put_text(question->device);
	m.pkey = question->pkey;
	m.path_pkey = question->path_pkey;
	m.knows_data = question->data != NULL;
	m.data.data = (uint8_t *)question->data;
	m.data.len = question->data ? question->data_len : 0;
	r = replies_get(&replies, session, "explain", &request, RDMABROKER__REPLY__RESULT_EXPLAIN,
			NULL);
	if (r < 0)
		return r;
	explanation = replies_keep(&replies, sizeof(*explanation) + 2 * sizeof(*rules));
	if (!explanation)
		return -ENOMEM;
	in = replies.list[0]->reply->explain;
	rules = (void *)(explanation + 1);
	*explanation = (struct rdmabroker_explanation){
		.allow = in->allow,
		.warns = in->warns,
		.rule = in->rule ? &rules[0] : NULL,
		.reason = message_get_text(in->reason),
		.n_effects = in->n_effects,
		.effects = (const char *const *)in->effects,
		.depends = in->depends ? &rules[1] : NULL,
		.asks = in->asks,
		.charged_uid = in->charged_uid ?: who->uid,
	};
	if (in->rule)
		in_rule(&rules[0], in->rule);
	if (in->depends)
		in_rule(&rules[1], in->depends);
	*ret = explanation;
	return 0;
}

int rdmabroker_reload(struct rdmabroker *session, bool dry_run,
		      struct rdmabroker_reload_result **ret)
{
	REQUEST(reload, m, Reload, RELOAD, reload);
	REQUEST(try_reload, t, TryReload, TRY_RELOAD, try_reload);
	struct rdmabroker_reload_result *result;
	const Rdmabroker__ReloadResult *in;
	struct replies replies;
	int r = replies_get(&replies, session, dry_run ? "try_reload" : "reload",
			    dry_run ? &try_reload : &reload, RDMABROKER__REPLY__RESULT_RELOAD,
			    NULL);

	if (r < 0)
		return r;
	result = replies_keep(&replies, sizeof(*result));
	if (!result)
		return -ENOMEM;
	in = replies.list[0]->reply->reload;
	*result = (struct rdmabroker_reload_result){
		.ok = in->ok,
		.n_rules = in->rules,
		.n_complaints = in->n_complaints,
		.complaints = (const char *const *)in->complaints,
		.dry_run = in->dry_run,
	};
	*ret = result;
	return 0;
}
