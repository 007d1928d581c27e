/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/admit/decide.h"
#include "core/admit/refused.h"
#include "core/admit/watch.h"
#include "core/facts/peerid.h"
#include "core/object/id.h"
#include "core/object/restriction.h"
#include "proto/addr.h"
#include "proto/pkey.h"
#include "util/audit.h"
#include "util/clock.h"

void decide_ask_policy(struct session *session, struct intent *intent, struct policy_verdict *ret)
{
	intent->question.uid = session->identity.uid;
	intent->question.gids = session->identity.gids;
	intent->question.n_gids = session->identity.n_gids;
	intent->question.too_many_gids = session->identity.too_many_gids;
	for (int i = 0; i < _WORKLOAD_MAX; i++)
		intent->question.workload[i] = session->identity.workload.names[i];
	policy_decide(intent->policy ?: session->core->policy, &intent->question, ret);
	session_count_examined(session, ret->n_examined);
}

void decide_ask(struct session *session, struct intent *intent, struct policy_verdict *ret)
{
	size_t by_policy;

	decide_ask_policy(session, intent, ret);
	if (!session->restriction)
		return;
	by_policy = ret->n_examined;
	restriction_narrow(session->restriction, &intent->question, ret);
	session_count_examined(session, ret->n_examined - by_policy);
}

/* False: VERDICT, which rejects, is the default. */
static bool has_rejecter(const struct policy_verdict *verdict)
{
	return verdict->rule || verdict->by_restriction;
}

enum refusal_code decide_refusal_code(const struct policy_verdict *verdict)
{
	return has_rejecter(verdict) ? REFUSAL_DENIED : REFUSAL_NO_RULE;
}

/*
 * As decide_ask(). If the decision depends on who the peer is, and that was not asked and cannot be any more, INTENT
 * says so to those who read of the decision.
 */
static void decide_without_asking(struct session *session, struct intent *intent,
				  struct policy_verdict *ret)
{
	static const struct peerid not_asked = {
		.why = "no rule needed that when it could be asked",
	};
	static const struct peerid lost = {
		.why = "the answer was lost when rdmabrokerd restarted",
	};

	intent->question.can_ask = true;
	decide_ask(session, intent, ret);
	intent->question.can_ask = false;
	if (ret->answer != POLICY_ASK)
		return;
	intent_set_peerid(intent, intent->was_asked ? &lost : &not_asked);
	decide_ask(session, intent, ret);
}

void decide(struct session *session, struct intent *intent, struct policy_verdict *ret)
{
	uint64_t *counts = session->core->metrics.decisions[intent->question.operation];
	struct tally *tally;

	if (policy_asks(session->core->policy) && !intent->asked && !intent->question.can_ask &&
	    !intent->question.early)
		decide_without_asking(session, intent, ret);
	else
		decide_ask(session, intent, ret);
	if (ret->answer == POLICY_DEFER || ret->answer == POLICY_ASK)
		return;
	tally = core_get_tally(session->core, ret->rule);
	if (ret->answer == POLICY_REJECT) {
		tally->n_rejected += !ret->by_restriction;
		counts[has_rejecter(ret) ? DECISION_REJECTED : DECISION_NO_RULE]++;
	} else if (!intent->question.early && policy_warns(ret)) {
		tally->n_warned++;
		counts[DECISION_WARNED]++;
	} else if (!intent->question.early) {
		tally->n_allowed++;
		counts[DECISION_ALLOWED]++;
	}
	decide_audit(session, intent, ret, /* overflow= */ NULL);
}

static void add_workload(struct audit *audit, const struct workload *workload)
{
	static const char *const fields[] = {
		[WORKLOAD_UNIT] = "RDMABROKER_UNIT",
		[WORKLOAD_CONTAINER] = "RDMABROKER_CONTAINER",
		[WORKLOAD_POD] = "RDMABROKER_POD",
		[WORKLOAD_JOB] = "RDMABROKER_JOB",
		[WORKLOAD_CGROUP] = "RDMABROKER_CGROUP",
	};

	for (int i = 0; i < _WORKLOAD_MAX; i++)
		if (workload->names[i] && workload->names[i][0])
			audit_add(audit, fields[i], "%s", workload->names[i]);
}

static void add_facts(struct audit *audit, const struct policy_question *question)
{
	char addr[ADDR_STRLEN];

	audit_add(audit, "RDMABROKER_OPERATION", "%s",
		  policy_operation_to_string(question->operation));
	if (question->local)
		audit_add(audit, "RDMABROKER_LOCAL", "%s", addr_to_string(question->local, addr));
	if (question->peer)
		audit_add(audit, "RDMABROKER_PEER", "%s", addr_to_string(question->peer, addr));
	if (question->port > 0)
		audit_add(audit, "RDMABROKER_PORT", "%d", question->port);
	if (question->device)
		audit_add(audit, "RDMABROKER_DEVICE", "%s", question->device);
	if (question->names_pkey)
		audit_add(audit, "RDMABROKER_PKEY", "0x%x", question->pkey | PKEY_FULL);
}

/* Adds who the peer is, if that was asked, and to TEXT too. */
static void add_peerid(struct audit *audit, const struct intent *intent, char *text, size_t size)
{
	const struct policy_peer *who = intent->question.who;
	const char *unit = who ? who->workload[WORKLOAD_UNIT] : NULL;
	const char *job = who ? who->workload[WORKLOAD_JOB] : NULL;

	text[0] = 0;
	if (!intent->asked)
		return;
	if (!who) {
		const char *why = peerid_why(intent->peerid);

		audit_add(audit, "RDMABROKER_PEER_UNKNOWN", "%s", why);
		snprintf(text, size, "; who the peer is, is not known: %s", why);
		return;
	}
	audit_add(audit, "RDMABROKER_PEER_UID", "%u", who->uid);
	if (unit && *unit)
		audit_add(audit, "RDMABROKER_PEER_UNIT", "%.255s", unit);
	if (job && *job)
		audit_add(audit, "RDMABROKER_PEER_JOB", "%.127s", job);
	snprintf(text, size, "; the peer is uid %u%s%.100s", who->uid, unit && *unit ? " in " : "",
		 unit ?: "");
}

static void write_down(struct session *session, const struct intent *intent,
		       const struct policy_verdict *verdict, const struct overflow *overflow)
{
	const struct tally *tally = core_get_tally(session->core, verdict->rule);
	const struct identity *identity = &session->identity;
	const struct policy_rule *rule = verdict->rule;
	bool rejected = verdict->answer == POLICY_REJECT, warned = policy_warns(verdict);
	const char *container = identity->workload.names[WORKLOAD_CONTAINER];
	char by[256] = "default, because no rule matches", why[160] = "", who[300],
	     buf[INTENT_OBJECT_LEN], in[128] = "";
	const char *object = intent_object(intent, buf);
	struct audit audit;

	if (!audit_begin(&audit, core_log_limit(session->core, identity->owner, tally)))
		return;
	if (rule)
		snprintf(by, sizeof(by), "%s:%u", rule->file, rule->line);
	else if (verdict->by_restriction)
		snprintf(by, sizeof(by), "the session's restriction");
	if (overflow)
		snprintf(why, sizeof(why), ": %s is reached, retry in %u ms", overflow->limit,
			 overflow->retry_after_ms);
	else if (verdict->reason && (rule || verdict->by_restriction))
		snprintf(why, sizeof(why), ": %s", verdict->reason);

	audit_add(&audit, "MESSAGE_ID", "%s",
		  overflow ? AUDIT_BUSY_ID :
		  rejected ? AUDIT_REJECTED_ID :
		  warned   ? AUDIT_WARNED_ID :
			     AUDIT_ALLOWED_ID);
	audit_add(&audit, "RDMABROKER_CODE", "%s",
		  overflow              ? "busy" :
		  warned                ? "warned" :
		  !rejected             ? "allowed" :
		  has_rejecter(verdict) ? "denied" :
					  "no-rule");
	audit_add(&audit, "RDMABROKER_SESSION", "%llu", (unsigned long long)session->number);
	audit_add(&audit, "RDMABROKER_UID", "%u", identity->uid);
	audit_add(&audit, "RDMABROKER_PID", "%d", identity->pid);
	add_workload(&audit, &identity->workload);
	if (rule)
		audit_add(&audit, "RDMABROKER_RULE", "%s", by);
	if (verdict->reason)
		audit_add(&audit, "RDMABROKER_REASON", "%s", verdict->reason);
	if (overflow)
		audit_add(&audit, "RDMABROKER_LIMIT", "%s", overflow->limit);
	add_facts(&audit, &intent->question);
	add_peerid(&audit, intent, who, sizeof(who));
	if (!*why && !*who)
		strcpy(why, ".");
	if (container && *container)
		snprintf(in, sizeof(in), ", container %s", container);
	audit_send(&audit, LOG_NOTICE, "Session %llu, uid %u, pid %d%s: %s%s%s %s by %s%s%s",
		   (unsigned long long)session->number, identity->uid, identity->pid, in,
		   intent->what, *object ? " " : "", object,
		   overflow ? "refused" :
		   rejected ? "rejected" :
		   warned   ? "allowed with a warning" :
			      "allowed",
		   by, why, who);
}

void decide_audit(struct session *session, const struct intent *intent,
		  const struct policy_verdict *verdict, const struct overflow *overflow)
{
	bool rejected = verdict->answer == POLICY_REJECT;

	if (verdict->answer == POLICY_DEFER || verdict->answer == POLICY_ASK ||
	    (!rejected && intent->question.early))
		return;
	if (session->at_start && (rejected || overflow))
		return;
	if (core_is_watched(session->core))
		watch_decision(session, intent, verdict, overflow);
	if ((rejected || overflow || policy_warns(verdict)) && !intent->is_addition)
		refused_note(session, intent, verdict, overflow);
	if (rejected || overflow || policy_warns(verdict) || verdict->rule->log)
		write_down(session, intent, verdict, overflow);
}

int decide_busy(struct session *session, const struct intent *intent,
		const struct policy_rule *rule, const struct overflow *overflow,
		struct failure *failure)
{
	struct policy_verdict verdict = { .answer = POLICY_ALLOW, .rule = rule };
	char buf[INTENT_OBJECT_LEN];
	const char *object = intent_object(intent, buf);

	session->core->metrics.decisions[intent->question.operation][DECISION_BUSY]++;
	decide_audit(session, intent, &verdict, overflow);
	return failure_set_busy(failure, rule, overflow, "%s%s%s", intent->what, *object ? " " : "",
				object);
}

int decide_admit_within(struct session *session, const struct intent *intent,
			const struct policy_rule *rule, const struct policy_settings *settings,
			bool pending, struct admitted *ret, struct failure *failure)
{
	struct overflow overflow;
	int r = tally_admit(core_get_tally(session->core, rule), settings, clock_ns(),
			    session->identity.owner.uid, intent->question.peer, pending, ret,
			    &overflow);

	return r == -EBUSY ? decide_busy(session, intent, rule, &overflow, failure) :
			     failure_errno(failure, r);
}

int decide_admit(struct session *session, const struct intent *intent,
		 const struct policy_rule *rule, bool pending, struct admitted *ret,
		 struct failure *failure)
{
	return decide_admit_within(session, intent, rule, &rule->settings, pending, ret, failure);
}

int decide_deny(const struct session *session, const struct intent *intent,
		const struct policy_verdict *verdict, struct failure *failure)
{
	char object[INTENT_OBJECT_LEN];

	return failure_set_denied(failure, verdict, "uid %u may not %s %s", session->identity.uid,
				  intent->what, intent_object(intent, object));
}

int decide_may_begin(struct session *session, const char *verb, struct failure *failure)
{
	if (!session->core->draining)
		return 0;
	return failure_set(failure, STATUS_DRAINING,
			   "%s: the broker is draining and refuses new work", verb);
}

void decide_admit_again(struct session *session, const struct intent *intent,
			const struct policy_rule *rule, bool pending, struct admitted *ret)
{
	struct policy_settings settings = rule->settings;
	struct failure ignored;

	settings.rate = settings.rate_per_user = settings.rate_per_peer = (struct policy_rate){ 0 };
	decide_admit_within(session, intent, rule, &settings, pending, ret, &ignored);
}

int decide_connect(struct id *id, bool early, const struct sockaddr *src,
		   const struct sockaddr *dst, struct policy_verdict *ret, struct failure *failure)
{
	struct policy_question *question;
	struct id_intent intent;

	intent_to_connect(&intent, id);
	question = &intent.intent.question;
	question->early = early;
	if (src)
		question->local = src;
	if (dst) {
		question->peer = dst;
		question->port = addr_port(dst);
		intent.intent.addrs[0] = dst;
	}
	if (src || dst)
		policy_set_partition(question, intent.info.pkey, id->route.path_pkey);
	decide(id->session, &intent.intent, ret);
	return ret->answer == POLICY_REJECT ?
		       decide_deny(id->session, &intent.intent, ret, failure) :
		       0;
}
