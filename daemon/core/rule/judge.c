/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/admit/decide.h"
#include "core/object/id.h"
#include "core/rule/judge.h"
#include "core/verbs/group.h"
#include "core/verbs/lease.h"

/* An id can have thousands, and this is a part of one request. enforce.c decides about all of them, in slices. */
#define GROUPS_MAX 1024
#define WORK_OF_GROUP 4 /* comparisons that are as much work as all but the comparisons */

static bool is_allowed(struct judgement *ret, struct session *session, struct policy *policy)
{
	struct intent *intent = &ret->intent.intent;

	/*
	 * Nobody has asked who the peer is, because no rule needed that, or the answer was lost with a previous process
	 * of the daemon. A connection that goes on does not end because of that.
	 */
	intent->question.can_ask = !intent->asked;
	intent->policy = policy;
	decide_ask(session, intent, &ret->verdict);
	return ret->verdict.answer == POLICY_ALLOW || ret->verdict.answer == POLICY_ASK;
}

bool judge_session(struct judgement *ret, struct session *session, struct policy *policy)
{
	ret->intent.intent = (struct intent){
		.question = { .operation = POLICY_SESSION, .port = -1 },
		.what = "session",
	};
	return !(session->permits & SESSION_PERMIT_CLIENT) || is_allowed(ret, session, policy);
}

bool judge_id(struct judgement *ret, struct id *id, struct policy *policy)
{
	switch (id->state) {
	case ID_LISTENING:
		intent_to_listen(&ret->intent, id);
		break;
	case ID_ADDR_RESOLVED ... ID_ESTABLISHED:
		if (id->handshake.passive)
			intent_to_accept_id(&ret->intent, id);
		else
			intent_to_connect(&ret->intent, id);
		break;
	default:
		return true; /* policy will decide at the id's next step, or the id has ended already */
	}
	return is_allowed(ret, id->session, policy);
}

bool judge_all_of_session(struct session *session, struct policy *policy, struct failure *why)
{
	const struct list *at = NULL;
	struct judgement judgement;
	const char *device;

	if (!judge_session(&judgement, session, policy)) {
		failure_set_denied(why, &judgement.verdict, "session");
		return false;
	}
	while ((device = lease_next_device(session, &at))) {
		lease_intent(&judgement.intent.intent, device);
		if (is_allowed(&judgement, session, policy))
			continue;
		failure_set_denied(why, &judgement.verdict, "device %s", device);
		return false;
	}
	return true;
}

bool judge_all_of_id(struct id *id, struct policy *policy, struct failure *why)
{
	struct judgement judgement;
	struct intent *intent = &judgement.intent.intent;
	char object[INTENT_OBJECT_LEN];
	const struct list *at = NULL;
	const struct sockaddr *group;
	unsigned n = 0;

	if (!judge_id(&judgement, id, policy)) {
		failure_set_denied(why, &judgement.verdict, "%s %s", intent->what,
				   intent_object(intent, object));
		return false;
	}
	while (!id_is_empty(id) && id->state != ID_REMOVED && (group = group_next(id, &at))) {
		if (++n > GROUPS_MAX) {
			failure_set(why, STATUS_DENIED,
				    "it has more than %u multicast groups, which are not looked at",
				    GROUPS_MAX);
			return false;
		}
		session_count_examined(id->session, WORK_OF_GROUP);
		intent_to_join(&judgement.intent, id, group);
		if (is_allowed(&judgement, id->session, policy))
			continue;
		failure_set_denied(why, &judgement.verdict, "%s %s", intent->what,
				   intent_object(intent, object));
		return false;
	}
	return true;
}
