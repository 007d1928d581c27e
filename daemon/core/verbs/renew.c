/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "core/admit/decide.h"
#include "core/admit/intent.h"
#include "core/admit/rule_settings.h"
#include "core/object/listener.h"
#include "core/verbs/id_life.h"
#include "core/verbs/renew.h"

/*
 * OnReload=keep does not cover ids that are not connected yet. A new policy decides about such an id when its route
 * is requested, and when it connects or accepts. If the new rule does not allow a setting that cannot be changed any
 * more, the connect or accept is refused.
 *
 * The same holds for an id whose own path (own_path.h) has come or gone since, and names another partition.
 */

/* Short, because nothing has to become free before the peer retries. */
#define RETRY_MS 100

static bool is_decided(const struct id *id)
{
	return id->grant.policy == id->session->core->policy &&
	       id->grant.path_pkey == id->route.path_pkey;
}

/* If another rule has admitted ID, replaces that admission by one of RULE. Returns as decide_admit_within(). */
static int admit_again(struct id *id, const struct intent *intent, const struct policy_rule *rule,
		       struct failure *failure)
{
	struct tally *tally = core_get_tally(id->session->core, rule);
	struct policy_settings settings = rule->settings;
	struct admitted admitted;
	int r;

	if (!id->grant.admitted.tally || id->grant.admitted.tally == tally)
		return 0;
	/* The connection request is being answered, so the limit of pending requests does not apply. */
	settings.pending = 0;
	r = decide_admit_within(id->session, intent, rule, &settings, id->grant.admitted.pending,
				&admitted, failure);
	if (r != 0)
		return r;
	admitted_done(&id->grant.admitted);
	id->grant.admitted = admitted;
	return 0;
}

/* True: RULE could have given ID the traffic class TOS. */
static bool allows_tos(const struct id *id, const struct policy_rule *rule, int tos)
{
	const struct policy_settings *settings = &rule->settings;

	if (settings->tos >= 0)
		return tos == settings->tos;
	return settings->tos_max < 0 || tos <= settings->tos_max ||
	       tos == rule_settings_choose_tos(id, rule);
}

int renew_rule(struct id *id, struct failure *failure)
{
	struct policy_verdict verdict;
	struct id_intent intent;
	int r;

	if (is_decided(id))
		return 0;
	r = decide_connect(id, /* early= */ false, NULL, NULL, &verdict, failure);
	if (r != 0)
		return r;
	intent_to_connect(&intent, id);
	r = admit_again(id, &intent.intent, verdict.rule, failure);
	return r != 0 ? r : rule_settings_admit(id, &verdict, failure);
}

int renew_for_connect(struct id *id, struct failure *failure)
{
	int r = renew_rule(id, failure);

	if (r != 0 || allows_tos(id, id->grant.rule, id->route.tos))
		return r;
	return failure_set_error(
		failure, STATUS_BAD_STATE, ESTALE,
		"connect: the route of id %u was resolved with a traffic class that %s:%u "
		"does not allow: resolve again with a new id",
		id->handle, id->grant.rule->file, id->grant.rule->line);
}

static bool allows_cap(int told, int cap)
{
	return cap < 0 || (told >= 0 && told <= cap);
}

/* True: RULE allows the settings in the connection request's event, by which the program can have set up its QP. */
static bool allows_what_was_told(const struct id *id, const struct policy_rule *rule)
{
	static const struct policy_settings none = {
		.responder_resources = -1,
		.initiator_depth = -1,
		.retry_count = -1,
		.rnr_retry_count = -1,
	};
	const struct policy_settings *told = id->grant.rule ? &id->grant.rule->settings : &none;
	const struct policy_settings *now = &rule->settings;

	return allows_tos(id, rule, id->options.now[OPTION_TOS]) &&
	       rule_settings_allow_forced(id, rule) &&
	       allows_cap(told->responder_resources, now->responder_resources) &&
	       allows_cap(told->initiator_depth, now->initiator_depth) &&
	       allows_cap(told->retry_count, now->retry_count) &&
	       allows_cap(told->rnr_retry_count, now->rnr_retry_count);
}

static int renew_accept(struct id *id, struct failure *failure)
{
	struct policy_verdict verdict;
	char object[INTENT_OBJECT_LEN];
	struct id_intent intent;
	int r;

	intent_to_accept_id(&intent, id);
	decide(id->session, &intent.intent, &verdict);
	if (verdict.answer != POLICY_ALLOW) {
		listener_turn_away(id, decide_refusal_code(&verdict),
				   /* retry_after_ms= */ 0, verdict.reason);
		return failure_set_denied(failure, &verdict, "uid %u may not accept the %s %s",
					  id->session->identity.uid, intent.intent.what,
					  intent_object(&intent.intent, object));
	}
	if (!id_is_datagram(id) && !allows_what_was_told(id, verdict.rule)) {
		listener_turn_away(id, REFUSAL_BUSY, RETRY_MS, "policy has changed");
		r = failure_set(
			failure, STATUS_BAD_STATE,
			"accept: the request of id %u has settings that %s:%u does not allow; it "
			"was rejected, and the peer may retry",
			id->handle, verdict.rule->file, verdict.rule->line);
		failure->error = ESTALE;
		return r;
	}
	r = admit_again(id, &intent.intent, verdict.rule, failure);
	if (r != 0)
		listener_turn_away(id, REFUSAL_BUSY, r > 0 ? failure->retry_after_ms : 1000,
				   "busy");
	else
		rule_settings_use(id, verdict.rule);
	return r;
}

int renew_for_accept(struct id *id, struct failure *failure)
{
	int r = is_decided(id) ? 0 : renew_accept(id, failure);

	if (r != 0)
		id_set_state(id, ID_FAILED);
	return r;
}
