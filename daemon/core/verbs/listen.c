/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>

#include "core/admit/decide.h"
#include "core/admit/intent.h"
#include "core/admit/notify.h"
#include "core/admit/rule_settings.h"
#include "core/facts/peerid.h"
#include "core/object/listener.h"
#include "core/object/undecided.h"
#include "core/object/wait.h"
#include "core/verbs/bind.h"
#include "core/verbs/id_life.h"
#include "core/verbs/listen.h"
#include "proto/addr.h"

/* Estimate: it is not known when the program will answer a connection request. */
#define RETRY_BACKLOG_MS 100

static int decide_listen(struct id *id, const struct policy_rule **ret, struct failure *failure)
{
	struct policy_verdict verdict;
	struct id_intent intent;
	int r;

	intent_to_listen(&intent, id);
	decide(id->session, &intent.intent, &verdict);
	if (verdict.answer != POLICY_ALLOW)
		return decide_deny(id->session, &intent.intent, &verdict, failure);
	/* Check REUSEADDR and the port again, because the id can have been bound under an earlier policy. */
	r = rule_settings_check_reuseaddr(id, verdict.rule, POLICY_LISTEN, failure);
	if (r == 0)
		r = bind_check_port(id->session, id->ps, intent.intent.addrs[0], "listen on",
				    failure);
	if (r != 0)
		return r;
	r = decide_admit(id->session, &intent.intent, verdict.rule, /* pending= */ false,
			 &id->grant.admitted, failure);
	if (r == 0)
		*ret = verdict.rule;
	return r;
}

/* Returns 0, -EINPROGRESS, or a status. */
static int listen_in_fabric(struct id *id, unsigned backlog, struct failure *failure)
{
	int r = fabric_id_listen(id->fabric, (int)backlog);
	struct fabric_id_info info;

	if (r == -EINPROGRESS) {
		r = wait_for_devices(id->session, "listen", failure);
		if (r != 0)
			return r;
		fabric_id_get_info(id->fabric, &info);
		r = wait_for_fabric(id->session,
				    htons((uint16_t)addr_port((struct sockaddr *)&info.local)));
		if (r < 0)
			return r;
		r = -EADDRINUSE;
	}
	return r < 0 ? failure_set_bind(failure, r, "listen", NULL) : 0;
}

int listen_start(struct id *id, unsigned backlog, struct failure *failure)
{
	static const struct sockaddr_in any = { .sin_family = AF_INET };
	struct core *core = id->session->core;
	const struct policy_rule *rule;
	struct listener *listener;
	unsigned max, waiting;
	int r;

	r = decide_may_begin(id->session, "listen", failure);
	if (r != 0)
		return r;
	/* Bind an id that is not bound yet, as the kernel does. */
	if (id->state == ID_IDLE) {
		r = bind_addr(id, (const struct sockaddr *)&any, failure);
		if (r != 0)
			return r;
	}
	if (id->state != ID_BOUND)
		return id_refuse_state(id, "listen", failure);
	r = decide_listen(id, &rule, failure);
	if (r != 0)
		return r;

	max = rule->settings.backlog > 0 ? (unsigned)rule->settings.backlog : INT32_MAX;
	if (backlog == 0)
		backlog = rule->settings.backlog > 0 ? max : (unsigned)core->settings.backlog;
	if (backlog > max)
		backlog = max;

	/*
	 * The kernel drops connection requests beyond a backlog, and the peers send them again. The broker rejects
	 * such requests, so it applies at least the default backlog, unless a rule sets one.
	 */
	waiting = backlog;
	if (rule->settings.backlog <= 0 && waiting < (unsigned)core->settings.backlog)
		waiting = (unsigned)core->settings.backlog;
	r = listener_new(&listener, id, waiting, failure);
	if (r == 0) {
		r = listen_in_fabric(id, backlog, failure);
		if (r != 0)
			listener_free(listener);
	}
	if (r != 0) {
		admitted_done(&id->grant.admitted);
		return r;
	}
	id->listener = listener;
	rule_settings_use(id, rule);
	id_set_state(id, ID_LISTENING);
	return 0;
}

static void turn_away(const struct id *listening, struct fabric_id *request, enum refusal_code code,
		      uint32_t retry_after_ms, const char *text)
{
	/* If the reject fails, freeing the request rejects it without private data. */
	listener_reject(request, id_is_datagram(listening), code, retry_after_ms, text);
	fabric_id_free(request);
}

/*
 * Returns 0 or, if the listener's backlog is full, STATUS_BUSY. ASKS: the request waits until it is known who the peer
 * is; RULE depends on that. Otherwise RULE allows the request.
 */
static int check_backlog(const struct listener *listener, struct session *session,
			 const struct intent *intent, const struct policy_rule *rule, bool asks,
			 struct failure *failure)
{
	struct overflow overflow = { .retry_after_ms = RETRY_BACKLOG_MS };
	bool is_full = listener->backlog->n_waiting >= listener->backlog->max;

	if (!is_full && !(asks && undecided_is_full(listener, intent->question.peer)))
		return 0;
	snprintf(overflow.limit, sizeof(overflow.limit), "%sbacklog %u",
		 is_full ? "" : "one peer's half of ", listener->backlog->max);
	core_get_tally(session->core, rule)->n_busy++;
	return decide_busy(session, intent, rule, &overflow, failure);
}

/* What is known about who the peer is. All zero: it was not asked. */
struct known {
	bool asked;
	struct peerid *peerid; /* NULL: out of memory */
};

static void on_peer_known(struct id *listening, struct fabric_event *event, struct peerid *answer);

/*
 * Decides about the request in EVENT. Returns 0; -EINPROGRESS: the request waits until it is known who the peer is, and
 * on_peer_known() is called; or STATUS_BUSY. If nobody can be asked, KNOWN has that.
 */
static int decide_accept(struct id *listening, const struct fabric_event *event,
			 struct id_intent *intent, struct known *known, struct policy_verdict *ret,
			 struct failure *failure)
{
	struct session *session = listening->session;
	int r;

	intent->intent.question.can_ask = !known->asked;
	if (known->asked)
		intent_set_peerid(&intent->intent, known->peerid);
	decide(session, &intent->intent, ret);
	if (ret->answer != POLICY_ASK)
		return 0;
	r = check_backlog(listening->listener, session, &intent->intent, ret->rule,
			  /* asks= */ true, failure);
	if (r != 0)
		return r;
	if (undecided_add(listening->listener, &intent->intent.question, intent->intent.peer_qpn,
			  event, on_peer_known, &known->peerid) == 0)
		return -EINPROGRESS;
	known->asked = true;
	intent_set_peerid(&intent->intent, known->peerid);
	intent->intent.question.can_ask = false;
	decide(session, &intent->intent, ret);
	return 0;
}

/* If the result is not 0, the peer was rejected, or -EINPROGRESS: the request waits. */
static int admit(struct id *listening, struct fabric_event *event, struct known *known,
		 const struct policy_rule **ret_rule, struct admitted *ret, struct failure *failure)
{
	struct session *session = listening->session;
	struct policy_verdict verdict;
	struct id_intent intent;
	int r;

	r = decide_may_begin(session, "accept", failure);
	if (r != 0) {
		turn_away(listening, event->request, REFUSAL_DRAINING, /* retry_after_ms= */ 0,
			  "draining");
		return r;
	}
	intent_to_accept(&intent, event->request, listening->ps, event);
	intent.intent.id = listening;
	r = decide_accept(listening, event, &intent, known, &verdict, failure);
	if (r == -EINPROGRESS)
		return r;
	if (r == 0 && verdict.answer != POLICY_ALLOW) {
		turn_away(listening, event->request, decide_refusal_code(&verdict), 0,
			  verdict.reason);
		return STATUS_DENIED;
	}
	if (r == 0)
		r = check_backlog(listening->listener, session, &intent.intent, verdict.rule,
				  /* asks= */ false, failure);
	if (r == 0)
		r = decide_admit(session, &intent.intent, verdict.rule, /* pending= */ true, ret,
				 failure);
	if (r != 0)
		turn_away(listening, event->request, REFUSAL_BUSY,
			  r > 0 ? failure->retry_after_ms : 1000, "busy");
	*ret_rule = verdict.rule;
	return r;
}

/* KNOWN's peerid is taken. */
static void on_request(struct id *listening, struct fabric_event *event, struct known known)
{
	struct session *session = listening->session;
	struct session_event out = { .fabric = event, .type = event->type };
	struct admitted admitted = { 0 };
	const struct policy_rule *rule;
	struct failure failure;
	struct id *id;
	int r;

	if (admit(listening, event, &known, &rule, &admitted, &failure) != 0) {
		peerid_free(known.peerid);
		return;
	}

	r = id_new_request(&id, session, event, listening->ps, &failure);
	if (r != 0) {
		log_limited(session_log_limit(session), LOG_WARNING,
			    "Session %llu: a connection request is refused: %s.",
			    (unsigned long long)session->number,
			    r < 0 ? "out of memory" : failure.text);
		turn_away(listening, event->request, REFUSAL_BUSY, 1000, "too many ids");
		admitted_done(&admitted);
		peerid_free(known.peerid);
		return;
	}

	if (known.asked)
		id_set_peerid(id, known.peerid);
	rule_settings_use(id, rule);
	id->grant.admitted = admitted;
	listener_add(listening->listener, id);
	if (id_is_datagram(listening))
		id->options.now[OPTION_QP_TYPE] = listening->options.now[OPTION_QP_TYPE];
	id->options.asked[OPTION_TOS] = listening->options.asked[OPTION_TOS];
	r = rule_settings_apply(id, &failure);
	if (r == 0)
		r = rule_settings_fill_attrs(id, &out, &failure);
	if (r != 0) {
		/* Most likely the peer gave up in the meantime, or the device is being removed. */
		id_free(id);
		return;
	}
	out.request = id;
	out.caps = rule_settings_get_caps(id);
	id_save_state(id);
	notify_event(listening, &out);
	id_save_told(id);
}

void listen_on_request(struct id *listening, struct fabric_event *event)
{
	on_request(listening, event, (struct known){ .asked = false });
}

static void on_peer_known(struct id *listening, struct fabric_event *event, struct peerid *answer)
{
	/* Meanwhile the listener can have been revoked, its device removed, or its session has begun to end. */
	if (listening->state != ID_LISTENING || listening->session->ending) {
		fabric_id_free(event->request);
		peerid_free(answer);
		return;
	}
	on_request(listening, event, (struct known){ .asked = true, .peerid = answer });
}
