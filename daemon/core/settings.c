/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/id.h"
#include "core/settings.h"

void settings_set_rule(struct id *id, const struct policy_rule *rule)
{
	struct core *core = id->session->core;
	struct policy *policy = policy_ref(core->policy);
	struct tally *tally = tally_ref(admissions_find(core->admissions, rule));

	policy_unref(id->policy);
	tally_unref(id->tally);
	id->policy = policy;
	id->rule = rule;
	id->tally = tally;
}

void settings_forget_rule(struct id *id)
{
	id->policy = policy_unref(id->policy);
	id->rule = NULL;
	id->tally = tally_unref(id->tally);
}

const struct policy_settings *settings_get_caps(const struct id *id)
{
	const struct policy_settings *s = id->rule ? &id->rule->settings : NULL;

	/* A listener's rule does not apply to connections. */
	if (!s || id->listener)
		return NULL;
	return s->responder_resources >= 0 || s->initiator_depth >= 0 || s->retry_count >= 0 ||
			       s->rnr_retry_count >= 0 ?
		       s :
		       NULL;
}

int settings_choose_tos(const struct id *id, const struct policy_rule *rule)
{
	const struct policy_settings *settings = &rule->settings;

	if (settings->tos >= 0)
		return settings->tos;
	if (id->tos_asked >= 0 && settings->tos_max >= 0 && id->tos_asked > settings->tos_max)
		return settings->tos_max;
	return id->tos_asked >= 0 ? id->tos_asked : id->session->core->settings.tos;
}

static int apply_tos(struct id *id, struct failure *failure)
{
	int tos = settings_choose_tos(id, id->rule), r;

	if (tos < 0)
		return 0;
	r = fabric_id_set_option(id->fabric, RDMA_OPTION_ID_TOS, tos);
	if (r < 0)
		return failure_set_fabric(failure, r, "set TOS %d", tos);
	id->tos = tos;
	return 0;
}

static int apply_ack_timeout(struct id *id, struct failure *failure)
{
	int ack_timeout = id->rule->settings.ack_timeout, r;

	/* Datagrams are not acknowledged. */
	if (ack_timeout < 0 || id_is_datagram(id))
		return 0;
	r = fabric_id_set_option(id->fabric, RDMA_OPTION_ID_ACK_TIMEOUT, ack_timeout);
	if (r < 0)
		return failure_set_fabric(failure, r, "set ACK_TIMEOUT %d", ack_timeout);
	id->ack_timeout = ack_timeout;
	return 0;
}

int settings_apply(struct id *id, struct failure *failure)
{
	int r;

	/* A listener's rule does not apply to connections. */
	if (!id->rule || id->listener)
		return 0;
	r = apply_tos(id, failure);
	return r != 0 ? r : apply_ack_timeout(id, failure);
}

int settings_check_reuseaddr(const struct id *id, const struct policy_rule *rule,
			     enum policy_operation operation, struct failure *failure)
{
	if (!id->reuseaddr || policy_rule_reuseaddr(rule, operation) != POLICY_REUSEADDR_NO)
		return 0;
	return failure_set(failure, STATUS_DENIED,
			   "id %u is bound with REUSEADDR, which %s:%u does not allow", id->handle,
			   rule->file, rule->line);
}

int settings_admit(struct id *id, const struct policy_verdict *verdict, struct failure *failure)
{
	int r;

	r = settings_check_reuseaddr(id, verdict->rule, POLICY_CONNECT, failure);
	if (r != 0)
		return r;
	if (!id->reuseaddr && verdict->rule->settings.reuseaddr == POLICY_REUSEADDR_YES) {
		r = fabric_id_set_option(id->fabric, RDMA_OPTION_ID_REUSEADDR, 1);
		if (r < 0)
			return failure_set_fabric(failure, r, "set REUSEADDR");
		id->reuseaddr = true;
	}
	settings_set_rule(id, verdict->rule);
	/* The traffic class becomes part of the route, and cannot be changed once the route resolution has begun. */
	return id->state == ID_ADDR_RESOLVED ? settings_apply(id, failure) :
					       apply_ack_timeout(id, failure);
}

/* 255, which stands for the device's maximum, is reduced to the rule's limit too. */
void settings_cap_param(const struct id *id, struct rdma_conn_param *param)
{
	const struct policy_settings *caps = settings_get_caps(id);

	if (!caps)
		return;
#define CAP(field)                                                  \
	do {                                                        \
		if (caps->field >= 0 && param->field > caps->field) \
			param->field = (uint8_t)caps->field;        \
	} while (0)
	CAP(responder_resources);
	CAP(initiator_depth);
	CAP(retry_count);
	CAP(rnr_retry_count);
#undef CAP
}

/* On the passive side the kernel fills in the retry counts that the peer requested. */
void settings_cap_retries(const struct id *id, struct qp_attr *qp)
{
	const struct policy_settings *caps = settings_get_caps(id);

	if (!caps)
		return;
	if (caps->retry_count >= 0 && qp->attr.retry_cnt > caps->retry_count)
		qp->attr.retry_cnt = (uint8_t)caps->retry_count;
	if (caps->rnr_retry_count >= 0 && qp->attr.rnr_retry > caps->rnr_retry_count)
		qp->attr.rnr_retry = (uint8_t)caps->rnr_retry_count;
}
