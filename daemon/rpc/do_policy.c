/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "proto/address.h"
#include "proto/text.h"
#include "rpc/call.h"
#include "rpc/control.h"
#include "rpc/request.h"
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

static union space *space_of(struct call *call)
{
	return SPACE(call, union space);
}

static Rdmabroker__Rule *out_rule(struct out_rule *space, const struct policy_rule *rule,
				  const struct tally *tally)
{
	Rdmabroker__Rule *out = &space->rule;

	rdmabroker__rule__init(out);
	text_copy(space->text, sizeof(space->text), rule ? rule->text : "");
	if (rule) {
		text_copy(space->file, sizeof(space->file), rule->file);
		out->file = space->file;
		out->line = rule->line;
	}
	out->text = space->text;
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
	Rdmabroker__ListRulesResult *result = &space_of(call)->list_rules;
	size_t total = policy_n_rules(core_get_policy(core)) + 1;

	rdmabroker__list_rules_result__init(result);
	result->total = (uint32_t)total;
	result->rules = space_of(call)->rule_pointers;
	for (size_t i = call->request->list_rules->first; i < total && result->n_rules < MAX_RULES;
	     i++) {
		const struct policy_rule *rule = policy_rule_at(core_get_policy(core), i);

		space_of(call)->rule_pointers[result->n_rules] = out_rule(
			&space_of(call)->rules[result->n_rules], rule, core_get_tally(core, rule));
		result->n_rules++;
	}
	REPLY(call, list_rules, LIST_RULES, result);
	return 0;
}

static int reload(struct call *call, bool dry_run)
{
	Rdmabroker__ReloadResult *result = &space_of(call)->reload;
	const struct diag *diag = NULL;
	struct policy *policy;
	const char *line;
	int r;

	r = control_reload(call->control, call->session, dry_run, &call->progress->reload_ticket,
			   call->attempt == REQUEST_AGAIN, &diag);
	if (r < 0 && (!diag || diag->errors.n == 0))
		return failure_errno(&call->failure, r);
	rdmabroker__reload_result__init(result);
	result->ok = r == 0;
	policy = core_get_policy(session_get_core(call->session));
	if (dry_run && r == 0) {
		result->dry_run = control_get_dry_run(call->control);
		policy = control_get_dry_policy(call->control, result->dry_run) ?: policy;
	}
	if (!policy_is_fallback(policy))
		result->rules = (uint32_t)policy_n_rules(policy);
	result->complaints = space_of(call)->complaint_pointers;
	while (diag && result->n_complaints < MAX_COMPLAINTS &&
	       (line = complaints_at(&diag->errors, result->n_complaints))) {
		char *copy = space_of(call)->complaints[result->n_complaints];

		text_copy(copy, TEXT_MAX, line);
		space_of(call)->complaint_pointers[result->n_complaints++] = copy;
	}
	REPLY(call, reload, RELOAD, result);
	return 0;
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

static int find_operation(const char *name, enum policy_operation *ret)
{
	for (int i = 0; i < _POLICY_OPERATION_MAX; i++)
		if (strcmp(policy_operation_to_string((enum policy_operation)i), name) == 0) {
			*ret = (enum policy_operation)i;
			return 0;
		}
	return -ENOENT;
}

static void add_effects(struct call *call, enum policy_operation operation,
			const struct policy_rule *rule)
{
	Rdmabroker__ExplainResult *result = &space_of(call)->explain;
	size_t i = 0;

	while (result->n_effects < MAX_EFFECTS) {
		char *text = space_of(call)->effects[result->n_effects];

		if (!policy_next_setting(rule, operation, &i, text,
					 sizeof(space_of(call)->effects[0])))
			return;
		space_of(call)->effect_pointers[result->n_effects++] = text;
	}
}

/* The memory that a question points to. */
struct facts {
	struct sockaddr_storage local, peer;
	struct policy_peer who;
};

static const char *in_question(struct policy_question *ret, const Rdmabroker__Explain *m,
			       struct facts *facts)
{
	const char *wrong = NULL;

	*ret = (struct policy_question){
		.uid = m->uid,
		.gids = m->gids,
		.n_gids = m->n_gids,
		.port = m->port ? (int)m->port : -1,
		.port_space = (int)m->port_space,
		.device = m->device[0] ? m->device : NULL,
		.workload[WORKLOAD_UNIT] = m->unit,
		.knows_data = m->knows_data,
		.data = m->data.data,
		.data_len = m->data.len,
	};
	for (int i = WORKLOAD_UNIT + 1; i < _WORKLOAD_MAX; i++)
		ret->workload[i] = "";
	if (m->workload) {
		ret->workload[WORKLOAD_CONTAINER] = m->workload->container;
		ret->workload[WORKLOAD_POD] = m->workload->pod;
		ret->workload[WORKLOAD_JOB] = m->workload->job;
		ret->workload[WORKLOAD_CGROUP] = m->workload->cgroup;
	}
	if (find_operation(m->operation, &ret->operation) < 0)
		return "unknown operation";
	if (m->n_gids > MAX_GIDS)
		return "more than 1024 groups";
	policy_sort_gids(m->gids, m->n_gids);
	if (m->port > UINT16_MAX)
		return "the port is out of range 0..65535";
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
	return wrong;
}

int do_explain(struct call *call)
{
	const struct core *core = session_get_core(call->session);
	Rdmabroker__ExplainResult *result = &space_of(call)->explain;
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
	result->effects = space_of(call)->effect_pointers;
	result->allow = verdict.answer == POLICY_ALLOW;
	if (verdict.rule)
		result->rule = out_rule(&space_of(call)->rule, verdict.rule,
					core_get_tally(core, verdict.rule));
	result->warns = policy_warns(&verdict);
	if (verdict.reason)
		result->reason = (char *)verdict.reason;
	result->asks = early.answer == POLICY_ASK;
	result->charged_uid = out_charged(question.uid, owner_of(question.uid));
	if (early.answer == POLICY_DEFER || early.answer == POLICY_ASK)
		result->depends = out_rule(&space_of(call)->depends, early.rule,
					   core_get_tally(core, early.rule));
	if (result->allow)
		add_effects(call, question.operation, verdict.rule);
	REPLY(call, explain, EXPLAIN, result);
	return 0;
}
