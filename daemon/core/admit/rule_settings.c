/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>

#include "core/admit/priority.h"
#include "core/admit/rule_settings.h"
#include "core/object/id.h"
#include "proto/addr.h"
#include "util/util.h"

void rule_settings_use(struct id *id, const struct policy_rule *rule)
{
	struct core *core = id->session->core;

	grant_set(&id->grant, core->policy, rule, core_get_tally(core, rule));
	id->grant.path_pkey = id->route.path_pkey;
}

const struct policy_settings *rule_settings_get_caps(const struct id *id)
{
	const struct policy_settings *s = id->grant.rule ? &id->grant.rule->settings : NULL;

	/* A listener's rule does not apply to connections. */
	if (!s || id->listener)
		return NULL;
	return s->responder_resources >= 0 || s->initiator_depth >= 0 || s->retry_count >= 0 ||
			       s->rnr_retry_count >= 0 ?
		       s :
		       NULL;
}

int rule_settings_choose_tos(const struct id *id, const struct policy_rule *rule)
{
	const struct policy_settings *settings = &rule->settings;

	if (settings->tos >= 0)
		return settings->tos;
	if (id->options.asked[OPTION_TOS] >= 0 && settings->tos_max >= 0 &&
	    id->options.asked[OPTION_TOS] > settings->tos_max)
		return settings->tos_max;
	return id->options.asked[OPTION_TOS] >= 0 ? id->options.asked[OPTION_TOS] :
						    id->session->core->settings.tos;
}

static int apply_tos(struct id *id, struct failure *failure)
{
	int tos = rule_settings_choose_tos(id, id->grant.rule), r;

	if (tos < 0)
		return 0;
	r = id_set_option(id, OPTION_TOS, tos);
	return r < 0 ? failure_set_fabric(failure, r, "set TOS %d", tos) : 0;
}

/* The options that a rule forces, besides the TOS. Datagrams have neither. */
static const struct {
	enum option option;
	size_t offset; /* in struct policy_settings */
} forced[] = {
	{ OPTION_ACK_TIMEOUT, offsetof(struct policy_settings, ack_timeout) },
	{ OPTION_MIN_RNR_TIMER, offsetof(struct policy_settings, min_rnr_timer) },
};

static int get_forced(size_t i, const struct policy_rule *rule)
{
	return *(const int *)((const char *)&rule->settings + forced[i].offset);
}

static int apply_forced(struct id *id, struct failure *failure)
{
	int r = 0, value;

	for (size_t i = 0; i < ELEMENTS_OF(forced) && !id_is_datagram(id); i++) {
		value = get_forced(i, id->grant.rule);
		if (value >= 0)
			r = id_set_option(id, forced[i].option, value);
		if (r < 0)
			return failure_set_fabric(failure, r, "set %s %d",
						  option_kinds[forced[i].option].name, value);
	}
	return r;
}

bool rule_settings_force(const struct id *id, enum option option)
{
	/* A listener's rule does not apply to connections. */
	if (!id->grant.rule || id->listener)
		return false;
	for (size_t i = 0; i < ELEMENTS_OF(forced); i++)
		if (forced[i].option == option)
			return get_forced(i, id->grant.rule) >= 0;
	return false;
}

bool rule_settings_allow_forced(const struct id *id, const struct policy_rule *rule)
{
	for (size_t i = 0; i < ELEMENTS_OF(forced); i++) {
		int value = get_forced(i, rule);

		if (value >= 0 && value != id->options.now[forced[i].option])
			return false;
	}
	return true;
}

int rule_settings_apply(struct id *id, struct failure *failure)
{
	int r;

	/* A listener's rule does not apply to connections. */
	if (!id->grant.rule || id->listener)
		return 0;
	r = apply_tos(id, failure);
	return r != 0 ? r : apply_forced(id, failure);
}

int rule_settings_check_reuseaddr(const struct id *id, const struct policy_rule *rule,
				  enum policy_operation operation, struct failure *failure)
{
	if (!options_has_reuseaddr(&id->options) ||
	    policy_rule_reuseaddr(rule, operation) != POLICY_REUSEADDR_NO)
		return 0;
	return failure_set(failure, STATUS_DENIED,
			   "id %u is bound with REUSEADDR, which %s:%u does not allow", id->handle,
			   rule->file, rule->line);
}

static int limit_of_class(const struct policy_rule *rule)
{
	return rule->settings.tos >= 0 ? rule->settings.tos : rule->settings.tos_max;
}

void rule_settings_cap_address(const struct policy_rule *rule, struct sockaddr_storage *addr)
{
	int limit = rule && rule->allow ? limit_of_class(rule) : -1;

	if (limit >= 0 &&
	    (rule->settings.tos >= 0 || addr_traffic_class((const struct sockaddr *)addr) > limit))
		addr_set_traffic_class(addr, (uint8_t)limit);
}

/* The address was capped by the rule that was expected then. */
static int check_class(const struct id *id, const struct policy_rule *rule, struct failure *failure)
{
	int limit = limit_of_class(rule), class;
	struct fabric_id_info info;

	fabric_id_get_info(id->fabric, &info);
	class = addr_traffic_class((const struct sockaddr *)&info.local);
	if (limit < 0 || class <= limit || !fabric_info_has_paths(&info))
		return 0;
	return failure_set(failure, STATUS_DENIED,
			   "id %u is bound to an address with the traffic class %d, which %s:%u "
			   "does not allow",
			   id->handle, class, rule->file, rule->line);
}

int rule_settings_admit(struct id *id, const struct policy_verdict *verdict,
			struct failure *failure)
{
	int r;

	r = rule_settings_check_reuseaddr(id, verdict->rule, POLICY_CONNECT, failure);
	if (r == 0)
		r = check_class(id, verdict->rule, failure);
	if (r != 0)
		return r;
	if (!options_has_reuseaddr(&id->options) &&
	    verdict->rule->settings.reuseaddr == POLICY_REUSEADDR_YES) {
		r = id_set_option(id, OPTION_REUSEADDR, 1);
		if (r < 0)
			return failure_set_fabric(failure, r, "set REUSEADDR");
	}
	rule_settings_use(id, verdict->rule);
	/* The traffic class becomes part of the route, and cannot be changed once the route resolution has begun. */
	return id->state == ID_ADDR_RESOLVED ? rule_settings_apply(id, failure) :
					       apply_forced(id, failure);
}

/* 255, which stands for the device's maximum, is reduced to the rule's limit too. */
void rule_settings_cap_param(const struct id *id, struct rdma_conn_param *param)
{
	const struct policy_settings *caps = rule_settings_get_caps(id);

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
static void cap_retries(const struct id *id, struct qp_attr *qp)
{
	const struct policy_settings *caps = rule_settings_get_caps(id);

	if (!caps)
		return;
	if (caps->retry_count >= 0 && qp->attr.retry_cnt > caps->retry_count)
		qp->attr.retry_cnt = (uint8_t)caps->retry_count;
	if (caps->rnr_retry_count >= 0 && qp->attr.rnr_retry > caps->rnr_retry_count)
		qp->attr.rnr_retry = (uint8_t)caps->rnr_retry_count;
}

int rule_settings_get_qp_attr(struct id *id, enum ibv_qp_state state, struct qp_attr *ret,
			      struct failure *failure)
{
	struct ibv_qp_attr *attr = &ret->attr;
	int r;

	if ((unsigned)state > IBV_QPS_ERR)
		return failure_set(failure, STATUS_BAD_REQUEST, "unknown QP state %d", (int)state);
	if (id_is_empty(id))
		return id_refuse_state(id, "init_qp_attr", failure);
	*ret = (struct qp_attr){ .attr.qp_state = state };
	r = fabric_id_qp_attr(id->fabric, state, attr, &ret->mask);
	if (r < 0)
		return failure_set_fabric(failure, r, "get QP attributes for an id that is %s",
					  id_state_to_string(id->state));
	/*
	 * On the passive side the kernel fills in the traffic class and the service level that the peer chose. Replace them
	 * by the id's own.
	 */
	if (id->options.now[OPTION_TOS] >= 0 && (ret->mask & IBV_QP_AV) &&
	    attr->ah_attr.is_global) {
		attr->ah_attr.grh.traffic_class = (uint8_t)id->options.now[OPTION_TOS];
		r = priority_get(id, &attr->ah_attr.sl, failure);
		if (r != 0)
			return r;
	}
	if (id->options.now[OPTION_MIN_RNR_TIMER] >= 0 && (ret->mask & IBV_QP_MIN_RNR_TIMER))
		attr->min_rnr_timer = (uint8_t)id->options.now[OPTION_MIN_RNR_TIMER];
	cap_retries(id, ret);
	if (attr->qp_state == IBV_QPS_RTS && (ret->mask & IBV_QP_TIMEOUT))
		id->handshake.qp_timeout = attr->timeout;
	return 0;
}

/* A datagram QP has no single peer, so only its attributes for INIT are needed. */
int rule_settings_fill_attrs(struct id *id, struct session_event *event, struct failure *failure)
{
	int r = rule_settings_get_qp_attr(id, IBV_QPS_INIT, &event->init, failure);

	if (id_is_datagram(id))
		return r;
	if (r == 0)
		r = rule_settings_get_qp_attr(id, IBV_QPS_RTR, &event->rtr, failure);
	/* Without them the client requests them, and that request waits. */
	if (r == -EINPROGRESS) {
		event->rtr.mask = 0;
		r = 0;
	}
	if (r == 0)
		r = rule_settings_get_qp_attr(id, IBV_QPS_RTS, &event->rts, failure);
	return r;
}
