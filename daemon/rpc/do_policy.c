/* SPDX-License-Identifier: BSD-2-Clause */
#include "proto/address.h"
#include "proto/names.h"
#include "proto/pkey.h"
#include "rpc/call.h"
#include "rpc/control.h"
#include "util/diag.h"

/* Requests of admins and observers about policy: its rules, loading it again, explaining a decision. */

#define MAX_COMPLAINTS 20
#define MAX_EFFECTS 16
#define MAX_RULES 16 /* rules in a reply: they fit into a packet even with the longest texts */

struct out_rule {
	Rdmabroker__Rule rule;
	char file[TEXT_MAX / 2];
	char text[TEXT_MAX];
};

/* What the replies of this file point to. */
union space {
	struct {
		Rdmabroker__ExplainResult explain;
		struct out_rule rule, depends;
		char effects[MAX_EFFECTS][64];
		char *effect_pointers[MAX_EFFECTS];
	};
	struct {
		Rdmabroker__ReloadResult reload;
		char complaints[MAX_COMPLAINTS][TEXT_MAX];
		char *complaint_pointers[MAX_COMPLAINTS];
	};
	struct {
		Rdmabroker__ListRulesResult list_rules;
		struct out_rule rules[MAX_RULES];
		Rdmabroker__Rule *rule_pointers[MAX_RULES];
	};
};

static Rdmabroker__Rule *out_rule(struct out_rule *space, const struct policy_rule *rule,
				  const struct tally *tally)
{
	Rdmabroker__Rule *out = &space->rule;

	rdmabroker__rule__init(out);
	out->text = out_text(space->text, sizeof(space->text), rule ? rule->text : NULL);
	if (rule) {
		out->file = out_text(space->file, sizeof(space->file), rule->file);
		out->line = rule->line;
	}
	out->allowed = tally->n_allowed;
	out->rejected = tally->n_rejected;
	out->busy = tally->n_busy;
	out->now = tally->n_now;
	out->pending = tally->n_pending;
	out->warned = tally->n_warned;
	return out;
}

int do_list_rules(struct call *call)
{
	const struct core *core = session_get_core(call->session);
	union space *space = SPACE(call, union space);
	Rdmabroker__ListRulesResult *result = &space->list_rules;
	size_t total = policy_n_rules(core_get_policy(core)) + 1;

	rdmabroker__list_rules_result__init(result);
	result->total = (uint32_t)total;
	result->rules = space->rule_pointers;
	for (size_t i = call->request->list_rules->first; i < total && result->n_rules < MAX_RULES;
	     i++) {
		const struct policy_rule *rule = policy_rule_at(core_get_policy(core), i);

		result->rules[result->n_rules] =
			out_rule(&space->rules[result->n_rules], rule, core_get_tally(core, rule));
		result->n_rules++;
	}
	return REPLY(call, list_rules, LIST_RULES, result);
}

static int reload(struct call *call, bool dry_run)
{
	union space *space = SPACE(call, union space);
	Rdmabroker__ReloadResult *result = &space->reload;
	const struct diag *diag = NULL;
	struct policy *policy;
	int r;

	r = control_reload(call->control, call->session, dry_run, &call->progress->reload_ticket,
			   call->attempt == REQUEST_AGAIN, &diag);
	if (r < 0 && (!diag || diag->errors.n == 0))
		return failure_errno(&call->failure, r);
	rdmabroker__reload_result__init(result);
	result->ok = r == 0;
	policy = core_get_policy(session_get_core(call->session));
	if (dry_run && r == 0) {
		result->dry_run = call->control->reloads[dry_run].ticket;
		policy = control_get_dry_policy(call->control, result->dry_run) ?: policy;
	}
	if (!policy_is_fallback(policy))
		result->rules = (uint32_t)policy_n_rules(policy);
	result->complaints = space->complaint_pointers;
	for (size_t i = 0; diag && i < diag->errors.n_kept && i < MAX_COMPLAINTS; i++)
		result->complaints[result->n_complaints++] =
			out_text(space->complaints[i], TEXT_MAX, diag->errors.kept[i].message);
	return REPLY(call, reload, RELOAD, result);
}

int do_reload(struct call *call)
{
	return reload(call, /* dry_run= */ false);
}

int do_try_reload(struct call *call)
{
	return reload(call, /* dry_run= */ true);
}

/* Explain */

static void add_effects(union space *space, enum policy_operation operation,
			const struct policy_rule *rule)
{
	Rdmabroker__ExplainResult *result = &space->explain;
	size_t i = 0;

	while (result->n_effects < MAX_EFFECTS) {
		char *text = space->effects[result->n_effects];

		if (!policy_next_setting(rule, operation, &i, text, sizeof(space->effects[0])))
			return;
		space->effect_pointers[result->n_effects++] = text;
	}
}

/* The memory that a question points to. */
struct facts {
	struct sockaddr_storage local, peer;
	struct policy_peer who;
};

static bool is_pkey(uint32_t pkey)
{
	return pkey <= UINT16_MAX && pkey_partition((uint16_t)pkey) != 0;
}

static const char *in_question(struct policy_question *ret, const Rdmabroker__Explain *m,
			       struct facts *facts)
{
	int operation = names_find(operation_names, m->operation);
	const char *wrong = NULL;

	*ret = (struct policy_question){
		.operation = (enum policy_operation)operation,
		.uid = m->uid,
		.gids = m->gids,
		.n_gids = m->n_gids,
		.port = m->port ? (int)m->port : -1,
		.port_space = (int)m->port_space,
		.device = m->device[0] ? m->device : NULL,
		.knows_data = m->knows_data,
		.data = m->data.data,
		.data_len = m->data.len,
	};
	in_workload(ret->workload, m->unit, m->workload);
	if (operation < 0)
		return "unknown operation";
	if (m->n_gids > MAX_GIDS)
		return "more than 1024 groups";
	policy_sort_gids(m->gids, m->n_gids);
	if (m->port > UINT16_MAX)
		return "the port is out of range 0..65535";
	if ((m->pkey && !is_pkey(m->pkey)) || (m->path_pkey && !is_pkey(m->path_pkey)))
		return "a P_Key is out of range, or of no partition";
	if (m->local) {
		wrong = address_unpack(&facts->local, m->local);
		ret->local = (struct sockaddr *)&facts->local;
	}
	if (!wrong && m->peer) {
		wrong = address_unpack(&facts->peer, m->peer);
		ret->peer = (struct sockaddr *)&facts->peer;
	}
	if (!wrong && m->peer_identity) {
		wrong = in_peer_identity(&facts->who, m->peer_identity);
		ret->who = &facts->who;
	}
	policy_set_partition(ret, pkey_partition((uint16_t)m->pkey),
			     pkey_partition((uint16_t)m->path_pkey));
	return wrong;
}

int do_explain(struct call *call)
{
	const struct core *core = session_get_core(call->session);
	union space *space = SPACE(call, union space);
	Rdmabroker__ExplainResult *result = &space->explain;
	struct policy_verdict verdict, early;
	struct policy_question question;
	struct facts facts;
	const char *wrong = in_question(&question, call->request->explain, &facts);

	if (wrong)
		return bad_request(call, wrong);
	policy_decide(core_get_policy(core), &question, &verdict);
	question.early = question.can_ask = true;
	policy_decide(core_get_policy(core), &question, &early);
	session_count_examined(call->session, verdict.n_examined + early.n_examined);
	policy_check_port(&question, &verdict);

	rdmabroker__explain_result__init(result);
	result->effects = space->effect_pointers;
	result->allow = verdict.answer == POLICY_ALLOW;
	if (verdict.rule)
		result->rule =
			out_rule(&space->rule, verdict.rule, core_get_tally(core, verdict.rule));
	result->warns = policy_warns(&verdict);
	if (verdict.reason)
		result->reason = (char *)verdict.reason;
	result->asks = early.answer == POLICY_ASK;
	result->charged_uid = out_charged(question.uid, owner_of(question.uid));
	if (early.answer == POLICY_DEFER || early.answer == POLICY_ASK)
		result->depends =
			out_rule(&space->depends, early.rule, core_get_tally(core, early.rule));
	if (result->allow)
		add_effects(space, question.operation, verdict.rule);
	return REPLY(call, explain, EXPLAIN, result);
}
