/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>

#include "core/admit/decide.h"
#include "core/admit/intent.h"
#include "core/admit/notify.h"
#include "core/admit/watch.h"
#include "core/object/id.h"
#include "core/object/listener.h"
#include "core/object/table.h"
#include "core/rule/enforce.h"
#include "core/rule/judge.h"
#include "core/rule/revoke.h"
#include "core/verbs/conn.h"
#include "core/verbs/group.h"
#include "core/verbs/lease.h"
#include "core/verbs/session_life.h"
#include "proto/timer.h"

/* Enforcement ends connections, but a program that holds a device and a QP can go on using both. */

#define SLICE 256 /* the most ids, groups and sessions that one turn of the loop checks */
#define GROUPS 32 /* the most groups of an id that end with it at a time */
static void end_id(struct id *id, const struct judgement *judgement)
{
	const struct intent *intent = &judgement->intent.intent;
	char object[INTENT_OBJECT_LEN];
	struct failure why;

	decide_audit(id->session, intent, &judgement->verdict, /* overflow= */ NULL);
	failure_set_denied(&why, &judgement->verdict, "%s %s is no longer allowed", intent->what,
			   intent_object(intent, object));
	if (id->state == ID_LISTENING)
		revoke_id(id, &why);
	else
		revoke_connection(id, &why, "policy has changed");
}

/* Its groups follow. False: an id that has to end with its groups leaves some at a time, and is to be checked again. */
static bool enforce_id(struct id *id)
{
	struct judgement judgement;
	bool allowed = judge_id(&judgement, id, /* policy= */ NULL);

	if (!allowed && id->state == ID_LISTENING) {
		session_count_work(id->session, group_leave_some(id, GROUPS));
		if (!list_is_empty(&id->groups))
			return false;
	}
	if (!allowed)
		end_id(id, &judgement);
	group_walk(id);
	return true;
}

/*
 * Ends the session's watch. A session without ids and leases ends too, because its client would wait for notices for
 * ever. Returns false if the session ends.
 */
static bool end_watch(struct session *session)
{
	session->watch = watch_free(session->watch);
	if (session_count_ids(session) > 0 || !list_is_empty(&session->leases))
		return true;
	session->ops->end(session->userdata, "the policy no longer lets this session observe");
	return false;
}

/*
 * Decides about the session and its leases. Admins and observers keep their sessions even if they are no longer
 * clients. True: the session's ids have to be checked.
 */
static bool enforce_session(struct session *session)
{
	bool was_client = session->permits & SESSION_PERMIT_CLIENT, is_client;
	unsigned later = session->permits & SESSION_PERMIT_CLIENT_LATER;
	struct judgement judgement;
	struct failure ignored;

	/* The session's Hello has not succeeded yet, or the session is ending already. */
	if (!session->permits)
		return false;
	is_client = judge_session(&judgement, session, /* policy= */ NULL) && was_client;
	if (was_client && !is_client) {
		decide_audit(session, &judgement.intent.intent, &judgement.verdict,
			     /* overflow= */ NULL);
		admitted_done(&session->admitted);
	}
	session->permits = session_permits_over_others(session, /* counts= */ false) |
			   (is_client ? SESSION_PERMIT_CLIENT : 0);
	if (!session->permits && later) {
		session->permits = later;
		if (session_become_client(session, &ignored) != 0)
			session->permits = 0;
	} else {
		session->permits |= later;
	}
	session_save(session);
	if (!session->permits) {
		session->ops->end(session->userdata, "the policy no longer allows this session");
		return false;
	}
	if (session->watch && !(session->permits & SESSION_PERMIT_OBSERVE) && !end_watch(session))
		return false;
	if (was_client)
		lease_enforce(session);
	return was_client;
}

/* MAX less one, or less what the decisions about one have cost. */
static unsigned take_one(struct session *session, unsigned max)
{
	/* Among many rules, one is as much work as several. */
	size_t n = 1 + session_take_examined(session) / SESSION_COMPARISONS_OF_ONE;

	return n < max ? max - (unsigned)n : 0;
}

/*
 * Checks at most MAX ids and groups of SESSION and, before the first id, the session itself. Returns MAX less their
 * number, or less what that has cost.
 */
static unsigned enforce_some(struct session *session, unsigned max)
{
	if (!session->walk.begun) {
		bool goes_on = enforce_session(session);

		session->walk.begun = true;
		max = take_one(session, max);
		if (!goes_on) {
			list_remove(&session->enforcing);
			return max;
		}
	}
	while (max > 0) {
		struct table_walk before = session->walk;
		struct id *id = before.group ? NULL : table_next(session, &session->walk);

		if (before.group) {
			group_enforce(session);
		} else if (!id) {
			list_remove(&session->enforcing);
			break;
		} else if (!enforce_id(id)) {
			session->walk = before;
		}
		max = take_one(session, max);
	}
	return max;
}

static int on_enforce(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct core *core = userdata;
	unsigned left = SLICE;
	struct list *l;

	while (left > 0 && (l = list_first(&core->enforcing)))
		left = enforce_some(container_of(l, struct session, enforcing), left);
	if (!list_is_empty(&core->enforcing)) {
		timer_start(source, 0);
	}
	return 0;
}

int enforce_init(struct core *core)
{
	int r;

	list_init(&core->enforcing);
	r = timer_new(&core->enforcer, core->loop, 1, on_enforce, core);
	return r < 0 ? r : 0;
}

void enforce_start(struct core *core)
{
	struct list *l;

	list_for_each(l, &core->sessions) {
		struct session *session = container_of(l, struct session, link);

		if (session->ending)
			continue;
		session->walk = (struct table_walk){ 0 };
		list_remove(&session->enforcing);
		list_insert(&core->enforcing, &session->enforcing);
	}
	on_enforce(core->enforcer, 0, core);
}
