/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/admit/decide.h"
#include "core/admit/intent.h"
#include "core/admit/rule_settings.h"
#include "core/object/listener.h"
#include "core/object/token.h"
#include "core/verbs/bind.h"
#include "core/verbs/handover.h"
#include "core/verbs/id_life.h"
#include "util/util.h"

int handover_export(struct id *id, int *ret_fd, struct failure *failure)
{
	if (id_is_empty(id) || id->state == ID_REMOVED || id->token)
		return id->token ? failure_set(failure, STATUS_BAD_STATE,
					       "export: id %u is exported already", id->handle) :
				   id_refuse_state(id, "export", failure);
	if (!list_is_empty(&id->groups)) {
		return failure_set_error(failure, STATUS_BAD_STATE, EBUSY,
					 "export: id %u has joined multicast groups", id->handle);
	}
	return token_new(id, ret_fd, failure);
}

/* False also if something about one of the clients is not known. */
static bool has_same_workload(const struct identity *from, const struct identity *to)
{
	for (int i = 0; i < _WORKLOAD_MAX; i++) {
		const char *a = from->workload.names[i], *b = to->workload.names[i];

		if (!a || !b || strcmp(a, b) != 0)
			return false;
	}
	return true;
}

/*
 * False: the decision that allowed ID holds for SESSION too. SESSION must have no restriction that ID's session does
 * not have. The clients must have the same user and groups. They must also be one process, or belong to the same unit,
 * container and so on, if the policy in force has made the decision.
 */
static bool has_to_ask(const struct session *session, const struct id *id)
{
	const struct identity *from = &id->session->identity, *to = &session->identity;

	if (session->restriction && session->restriction != id->session->restriction)
		return true;
	if (from->uid != to->uid || from->too_many_gids || to->too_many_gids ||
	    from->n_gids != to->n_gids ||
	    memcmp(from->gids, to->gids, from->n_gids * sizeof(gid_t)) != 0)
		return true;
	/* The pid of a process that has ended can be another one's. */
	if (from->pid == to->pid && from->proven && to->proven && identity_is_alive(from))
		return false;
	return !has_same_workload(from, to) || id->grant.policy != session->core->policy;
}

/* Policy's decision about an import. */
struct import {
	/* the id gets this verdict's rule; rule NULL: the id keeps the rule that it has, if any */
	struct policy_verdict verdict;
	/* the admission by the verdict's rule; tally NULL: the id keeps its old admission */
	struct admitted admitted;
};

/* Fills in the policy request for the import of ID. False: in the id's state there is nothing to decide. */
static bool intent_to_import(struct id_intent *ret, struct id *id)
{
	switch (id->state) {
	case ID_LISTENING:
		intent_to_listen(ret, id);
		ret->intent.what = "take over the listener on";
		break;
	case ID_ADDR_QUERY ... ID_DISCONNECTING:
		if (id->handshake.passive) {
			intent_to_accept_id(ret, id);
			ret->intent.what = id->handshake.request ?
						   "take over the connection request from" :
						   "take over the connection from";
		} else {
			intent_to_connect(ret, id);
			ret->intent.what = "take over the connection to";
		}
		break;
	default:
		return false;
	}
	ret->intent.question.early = id->state == ID_ADDR_QUERY;
	/* Reports must not name the id, because its handle belongs to the other session. */
	ret->intent.id = NULL;
	return true;
}

/*
 * Checks that SESSION is allowed to use ID's REUSEADDR and port. Passive ids are exempt, because their port is the
 * listener's. Returns 0 or STATUS_DENIED.
 */
static int check_binding(struct session *session, const struct id *id,
			 const struct id_intent *intent, const struct policy_verdict *verdict,
			 struct failure *failure)
{
	struct policy_verdict rejected = { .answer = POLICY_REJECT, .rule = verdict->rule };

	if (id->handshake.passive)
		return 0;
	if (options_has_reuseaddr(&id->options) &&
	    policy_rule_reuseaddr(verdict->rule, intent->intent.question.operation) ==
		    POLICY_REUSEADDR_NO) {
		rejected.reason = "the id is bound with REUSEADDR, which the rule does not allow";
		decide_audit(session, &intent->intent, &rejected, /* overflow= */ NULL);
		return decide_deny(session, &intent->intent, &rejected, failure);
	}
	return bind_check_port(session, id->ps, (const struct sockaddr *)&intent->info.local,
			       "take over", failure);
}

/*
 * Admits ID by the verdict's rule, if ID has an admission now. Rate limits do not apply, because an import sends
 * nothing to the network.
 */
static int admit_import(struct session *session, const struct id *id, const struct intent *intent,
			struct import *import, struct failure *failure)
{
	const struct policy_rule *rule = import->verdict.rule;
	struct policy_settings settings = rule->settings;
	const struct policy_rate none = { 0 };

	if (!id->grant.admitted.tally)
		return 0;
	if (id->grant.admitted.tally == core_get_tally(session->core, rule)) {
		/* The rule counts the id already, so its limits for all users together do not apply again. */
		if (id->session->identity.uid == session->identity.uid)
			return 0;
		settings.max = settings.pending = 0;
	}
	settings.rate = settings.rate_per_user = settings.rate_per_peer = none;
	return decide_admit_within(session, intent, rule, &settings, id->grant.admitted.pending,
				   &import->admitted, failure);
}

static int decide_import(struct session *session, struct id *id, struct import *ret,
			 struct failure *failure)
{
	struct policy_verdict verdict;
	struct id_intent intent;
	int r;

	if (id->state == ID_BOUND)
		return bind_decide_over(session, id, "take over", failure);
	if (!intent_to_import(&intent, id))
		return 0;
	decide(session, &intent.intent, &verdict);
	if (verdict.answer == POLICY_REJECT)
		return decide_deny(session, &intent.intent, &verdict, failure);
	/* The final decision follows when the address is resolved. By then the id belongs to SESSION. */
	if (intent.intent.question.early)
		return 0;
	r = check_binding(session, id, &intent, &verdict, failure);
	if (r != 0)
		return r;
	ret->verdict = verdict;
	return admit_import(session, id, &intent.intent, ret, failure);
}

static void adopt(struct id *id, struct import *import, struct failure *failure)
{
	int r = 0;

	if (!import->verdict.rule)
		return;
	if (import->admitted.tally) {
		admitted_done(&id->grant.admitted);
		id->grant.admitted = import->admitted;
	}
	switch (id->state) {
	case ID_ADDR_RESOLVED ... ID_ROUTE_RESOLVED:
		r = rule_settings_admit(id, &import->verdict, failure);
		break;
	case ID_REQUEST:
		rule_settings_use(id, import->verdict.rule);
		/* The new owner's QP attributes must not contain the TOS that the old owner's rule set. */
		id->options.now[OPTION_TOS] = -1;
		r = rule_settings_apply(id, failure);
		break;
	default:
		rule_settings_use(id, import->verdict.rule);
		if (id->listener)
			listener_set_rule(id->listener, import->verdict.rule);
	}
	/* The import cannot be undone here. Without a rule, policy decides again at the id's next step. */
	if (r != 0)
		grant_forget(&id->grant);
	id_save(id);
}

int handover_import(struct session *session, int fd, struct id **ret, struct failure *failure)
{
	struct import import = { 0 };
	struct id *from = token_find(session->core, fd);
	int r;

	if (!from)
		return failure_set(
			failure, STATUS_NO_SUCH_ID,
			"import: the descriptor does not belong to an exported id, or the export "
			"has ended");
	if (has_to_ask(session, from)) {
		r = decide_import(session, from, &import, failure);
		if (r != 0)
			return r;
	}
	r = id_move(ret, session, from, failure);
	if (r != 0) {
		admitted_done(&import.admitted);
		return r;
	}
	adopt(*ret, &import, failure);
	token_free(from->token);
	return 0;
}
