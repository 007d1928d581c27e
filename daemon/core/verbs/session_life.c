/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/admit/decide.h"
#include "core/admit/watch.h"
#include "core/facts/workload.h"
#include "core/object/inquiry.h"
#include "core/object/quota.h"
#include "core/object/restriction.h"
#include "core/object/table.h"
#include "core/verbs/group.h"
#include "core/verbs/id_life.h"
#include "core/verbs/lease.h"
#include "core/verbs/linger.h"
#include "core/verbs/session_life.h"
#include "takeover/ledger.h"
#include "util/clock.h"
#include "util/util.h"

DEFINE_CLEANUP(struct session *, session_free)

#define FDS_OF_A_SESSION 1 /* identity.pidfd; the caller of session_new() charges the socket */

static int charge_once(struct session *session, struct failure *failure)
{
	int r = 0;

	if (!session->charge.account)
		r = quota_charge(session, &session->charge, ACCOUNT_SESSIONS, 1, failure);
	if (r == 0)
		r = quota_charge(session, &session->fds, ACCOUNT_FDS, FDS_OF_A_SESSION, failure);
	return r;
}

static int charge_session(struct session *session, struct failure *failure)
{
	int r;

	if (session->fds.account)
		return 0;
	r = charge_once(session, failure);
	/* What the process has left is charged to the user until the session takes it over. */
	if (r == STATUS_QUOTA && linger_resume(session))
		r = charge_once(session, failure);
	if (r > 0 && !session->at_start)
		log_limited(session_log_limit_about(session, LOG_ABOUT_LIMIT), LOG_WARNING,
			    "A client is refused: %s.", failure->text);
	return r;
}

int session_new(struct session **ret, struct core *core, int sock, enum door door,
		struct restriction *restriction, const struct session_ops *ops, void *userdata)
{
	_cleanup_(session_freep) struct session *session = calloc(1, sizeof(*session));
	int r;

	if (!session)
		return -ENOMEM;
	session->core = core;
	session->door = door;
	session->ops = ops;
	session->userdata = userdata;
	session->identity.pidfd = -1;
	list_init(&session->link);
	list_init(&session->leases);
	list_init(&session->waiting);
	list_init(&session->enforcing);

	r = identity_init(&session->identity, sock);
	if (r < 0)
		return r;
	session->restriction = restriction_ref(restriction);

	r = roster_add(&core->by_number, core_next_number(core), session);
	if (r < 0)
		return r;
	session->number = core->last_session;
	session->since_ms = clock_ms();
	list_insert(&core->sessions, &session->link);
	core->n_sessions++;
	session->row = ledger_add_session(core->keep.ledger);
	session_save(session);
	*ret = TAKE_PTR(session);
	return 0;
}

unsigned session_end(struct session *session, unsigned max)
{
	if (!session->ending) {
		list_remove(&session->enforcing);
		session->walk = (struct table_walk){ 0 };
	}
	session->ending = true;
	while (max > 0) {
		struct table_walk before = session->walk;
		struct id *id = table_next(session, &session->walk);

		if (!id)
			break;
		max -= group_leave_some(id, max);
		if (max == 0) {
			session->walk = before;
			break;
		}
		id_free(id);
		max--;
	}
	return max;
}

static void remove_row(struct session *session)
{
	session->row = ledger_remove_session(session->core->keep.ledger, session->row);
}

struct session *session_free(struct session *session)
{
	if (!session)
		return NULL;
	session->ending = true;
	session->watch = watch_free(session->watch);
	inquiries_forget(session);
	/* A session was reported as opened only if its Hello has succeeded. */
	if (session->opened && core_is_watched(session->core))
		watch_session(session, "closed",
			      session->end_reason[0] ? session->end_reason : NULL);
	session_end(session, UINT32_MAX);
	/* Free the ids that were added while the session was ending. */
	session->walk = (struct table_walk){ 0 };
	session_end(session, UINT32_MAX);
	handles_done(&session->requests);
	handles_done(&session->ids);
	lease_free_all(session);
	session->workload_lookup = workload_lookup_cancel(session->workload_lookup);
	list_remove(&session->waiting);
	list_remove(&session->enforcing);
	remove_row(session);
	if (session->number > 0) {
		roster_remove(&session->core->by_number, session->number);
		list_remove(&session->link);
		session->core->n_sessions--;
	}
	admitted_done(&session->admitted);
	policy_unref(session->policy);
	charge_done(&session->fds);
	charge_done(&session->charge);
	identity_done(&session->identity);
	restriction_unref(session->restriction);
	free(session);
	return NULL;
}

/* True: the session's restriction does not allow OPERATION. */
static bool restricts(const struct session *session, enum policy_operation operation)
{
	struct policy_question question = { .operation = operation, .port = -1 };
	struct policy_verdict verdict = { .answer = POLICY_ALLOW };

	restriction_narrow(session->restriction, &question, &verdict);
	return verdict.answer != POLICY_ALLOW;
}

/*
 * Whether policy allows OPERATION; the session's restriction does not count. COUNTS: a decision that allows is counted
 * and reported, if the restriction does not reject it. A rejection is not, because the client has not requested
 * OPERATION.
 */
static bool may(struct session *session, enum policy_operation operation, const char *what,
		bool counts)
{
	struct intent intent = { .question = { .operation = operation, .port = -1 }, .what = what };
	struct policy_verdict verdict;

	decide_ask_policy(session, &intent, &verdict);
	if (verdict.answer == POLICY_ALLOW && counts && !restricts(session, operation))
		decide(session, &intent, &verdict);
	return verdict.answer == POLICY_ALLOW;
}

/* The user who connects to the helper's socket can be another one than Helper= names. */
static unsigned get_helper_permit(const struct session *session)
{
	uid_t helper = session->core->inquiries->helper_uid;

	return session->door == DOOR_HELPER && helper != (uid_t)-1 &&
			       session->identity.uid == helper && !session->restriction ?
		       SESSION_PERMIT_PEERS :
		       0;
}

/* Who may administer may observe, too, by policy as well as by a restriction. */
unsigned session_permits_over_others(struct session *session, bool counts)
{
	bool may_administer = session->door == DOOR_ADMIN ||
			      may(session, POLICY_ADMIN, "administration", counts);
	bool may_observe = may_administer || may(session, POLICY_OBSERVE, "observation", counts);
	unsigned helper = get_helper_permit(session);

	if (may_administer && !restricts(session, POLICY_ADMIN))
		return SESSION_PERMIT_ADMIN | SESSION_PERMIT_OBSERVE | helper;
	if (may_observe &&
	    !(restricts(session, POLICY_OBSERVE) && restricts(session, POLICY_ADMIN)))
		return SESSION_PERMIT_OBSERVE | helper;
	return helper;
}

/* Decides whether SESSION may use RDMA, and counts and reports that. */
static int admit_client(struct session *session, struct failure *failure)
{
	struct intent intent = { .question = { .operation = POLICY_SESSION, .port = -1 },
				 .what = "session" };
	struct policy_verdict verdict;
	int r;

	decide(session, &intent, &verdict);
	if (verdict.answer != POLICY_ALLOW)
		return failure_set_denied(failure, &verdict, "uid %u may not use the broker",
					  session->identity.uid);
	r = decide_admit(session, &intent, verdict.rule, /* pending= */ false, &session->admitted,
			 failure);
	if (r == 0) {
		session->permits |= SESSION_PERMIT_CLIENT;
		session->policy = policy_ref(session->core->policy);
		session->rule = verdict.rule;
	}
	return r;
}

int session_become_client(struct session *session, struct failure *failure)
{
	int r;

	if (!(session->permits & SESSION_PERMIT_CLIENT_LATER))
		return failure_set(failure, STATUS_NOT_PERMITTED,
				   "no session rule allows this user to use RDMA");
	r = admit_client(session, failure);
	if (r != 0)
		return r;
	session->permits &= ~(unsigned)SESSION_PERMIT_CLIENT_LATER;
	session_save(session);
	linger_resume(session);
	return 0;
}

static int greet(struct session *session, struct failure *failure)
{
	struct intent intent = { .question = { .operation = POLICY_SESSION, .port = -1 },
				 .what = "session" };
	struct policy_verdict verdict;

	session->permits |= session_permits_over_others(session, /* counts= */ true);
	if (!session->permits)
		return admit_client(session, failure);
	decide_ask(session, &intent, &verdict);
	if (verdict.answer == POLICY_ALLOW)
		session->permits |= SESSION_PERMIT_CLIENT_LATER;
	return 0;
}

int session_release(struct session *session, struct failure *failure)
{
	if (!session->restriction)
		return failure_set(failure, STATUS_BAD_STATE,
				   "release: the session has no restriction");
	if (session->replies_to)
		return failure_set(failure, STATUS_BAD_STATE,
				   "release: the session gets its replies by another one");
	if (session_count_ids(session) > 0 || !list_is_empty(&session->leases) || session->watch ||
	    session->serves || session->published)
		return failure_set(
			failure, STATUS_BAD_STATE,
			"release: the session has ids, devices, a watch or a published socket");
	if (core_is_watched(session->core))
		watch_session(session, "closed", "released to another process");
	admitted_done(&session->admitted);
	session->policy = policy_unref(session->policy);
	session->rule = NULL;
	session->permits = 0;
	session->opened = false;
	session->workload_asked = false;
	session->released = true;
	session_save(session);
	return 0;
}

static void tell_doubt(struct session *session)
{
	const struct identity *identity = &session->identity;
	const char *doubt = identity_doubt(identity);

	if (doubt)
		log_limited(
			session_log_limit_about(session, LOG_ABOUT_DOUBT), LOG_NOTICE,
			"Session %llu, uid %u: cannot verify that process %d is the client: %s. "
			"Rules for units and containers do not match it, and its QPs are refused.",
			(unsigned long long)session->number, identity->uid, identity->pid, doubt);
	if (identity->too_many_gids)
		log_limited(
			session_log_limit_about(session, LOG_ABOUT_DOUBT), LOG_NOTICE,
			"Session %llu, uid %u, pid %d: the client has more than %d groups, so it is not known "
			"which. No allow rule for groups matches it, and reject rules do.",
			(unsigned long long)session->number, identity->uid, identity->pid,
			IDENTITY_GIDS_MAX);
}

static void on_workload(void *userdata, struct workload *found)
{
	struct session *session = userdata;

	session->workload_lookup = NULL;
	identity_set_workload(&session->identity, found);
	session->ops->resume(session->userdata, /* handle= */ 0);
}

int session_find_workload(struct session *session, struct failure *failure)
{
	const struct identity *identity = &session->identity;
	int r;

	if (session->workload_lookup)
		return -EINPROGRESS;
	if (session->workload_asked || !identity->proven || identity->pid <= 0)
		return 0;
	/* Charge the session first, because a client that waits for the look-up already uses resources. */
	r = charge_session(session, failure);
	if (r != 0)
		return r;
	session->workload_asked = true;
	return failure_errno(failure, workload_lookup_new(&session->workload_lookup,
							  session->core->workloads, identity->pid,
							  identity->uid, identity->owner,
							  on_workload, session));
}

int session_greet(struct session *session, struct failure *failure)
{
	int r = greet(session, failure);
	struct failure ignored;

	if (r == 0) {
		r = charge_session(session, failure);
		/* The look-up of the workload has charged it, when the rule was not known. */
		if (r == 0)
			r = quota_check_sessions(session, failure);
		if (r != 0)
			session->permits = 0;
	}
	session->opened = r == 0;
	session_save(session);
	if (r == 0)
		tell_doubt(session);
	if (r == 0 && session->permits & SESSION_PERMIT_CLIENT)
		linger_resume(session);
	else if (r == 0 && linger_has_leases_for(session))
		session_become_client(session, &ignored);
	if (r == 0 && core_is_watched(session->core))
		watch_session(session, "opened", /* reason= */ NULL);
	return r;
}

/*
 * Admits a restored session by the rule that allows it now. Without such a rule, the session goes on unless
 * OnReload=enforce ends it.
 */
static void find_rule(struct session *session)
{
	struct intent intent = { .question = { .operation = POLICY_SESSION, .port = -1 },
				 .what = "session" };
	struct core *core = session->core;
	struct policy_verdict verdict;

	if (!(session->permits & SESSION_PERMIT_CLIENT))
		return;
	decide_ask(session, &intent, &verdict);
	if (verdict.answer != POLICY_ALLOW)
		return;
	session->policy = policy_ref(core->policy);
	session->rule = verdict.rule;
	decide_admit_again(session, &intent, verdict.rule, /* pending= */ false,
			   &session->admitted);
}

/* In a ledger that is damaged, two sessions can have one number: then SESSION keeps its own. */
static void renumber(struct session *session, uint64_t number)
{
	struct roster *roster = &session->core->by_number;

	roster_remove(roster, session->number);
	if (roster_add(roster, number, session) == 0)
		session->number = number;
	else
		roster_add(roster, session->number, session);
	core_set_last_session(session->core, number);
}

void session_restore(struct session *session, int pidfd, const struct ledger_session *row)
{
	struct identity *identity = &session->identity;
	struct failure ignored;

	renumber(session, row->number);
	session->since_ms = row->since_ms;
	if (row->charged_range != 0)
		identity->owner = (struct owner){ row->charged_uid, row->charged_range };
	if (pidfd >= 0) {
		closep(&identity->pidfd);
		identity->pidfd = pidfd;
	}
	session->restriction = restriction_ref(restriction_find(session->core, row->restriction));
	if (row->released) {
		session->released = true;
		charge_session(session, &ignored);
		session_save(session);
		return;
	}
	session->confirms = row->confirms;
	session->keeps_leases = row->keeps_leases;
	identity->proven = row->proven;
	session_load_workload(session, row);
	session->workload_asked = true;
	/* The rights over others are judged again: the rules or Helper= can be others now. */
	session->door = row->door < _DOOR_MAX ? (enum door)row->door : DOOR_COMMON;
	session->replies_to = row->replies_to;
	session->permits = (row->permits                    ?:
				    row->restricted_permits ?:
							      row->apart_permits) &
			   (SESSION_PERMIT_CLIENT | SESSION_PERMIT_CLIENT_LATER);
	session->permits |= session_permits_over_others(session, /* counts= */ false);
	session->opened = true;
	/* If the charge fails, for example because the limit is lower now, the session goes on without a charge. */
	charge_session(session, &ignored);
	find_rule(session);
	session_save(session);
}

void session_leave_client(struct session *session, const struct session_ops *ops, void *userdata)
{
	session->watch = watch_free(session->watch);
	inquiries_forget(session);
	session->workload_lookup = workload_lookup_cancel(session->workload_lookup);
	list_remove(&session->waiting);
	remove_row(session);
	session->ops = ops;
	session->userdata = userdata;
	session->walk = (struct table_walk){ 0 };
	session->ending = false;
	session->lingers = true;
}
