/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/id.h"
#include "proto/addr.h"
#include "util/util.h"

/*
 * A listener passes the connection requests that policy admits to its takers. So far its only taker is the
 * session that listens; the list is there for listeners that several processes share.
 */
struct taker {
	struct list link; /* listener.takers */
	struct session *session;
};

/*
 * Counts a listener's connection requests that wait for the program's answer. The kernel's own backlog counts
 * only requests that the daemon has not read, and the daemon reads at once. The backlog outlives the listener
 * as long as one of them waits, in whatever session.
 */
struct backlog {
	unsigned n_refs; /* the listener's, and one of each request that waits */
	unsigned max;
	unsigned n_waiting;
};

struct listener {
	struct id *id;
	struct list takers; /* taker.link */
	struct taker owner;
	struct charge charge;
	struct backlog *backlog;
};

/* An estimate: it is not known when the program will answer. */
#define RETRY_BACKLOG_MS 100

static int backlog_new(struct backlog **ret, unsigned max)
{
	struct backlog *backlog = calloc(1, sizeof(*backlog));

	if (!backlog)
		return -ENOMEM;
	backlog->n_refs = 1;
	backlog->max = max;
	*ret = backlog;
	return 0;
}

static struct backlog *backlog_unref(struct backlog *backlog)
{
	if (backlog && --backlog->n_refs == 0)
		free(backlog);
	return NULL;
}

static struct backlog *backlog_enter(struct backlog *backlog)
{
	backlog->n_refs++;
	backlog->n_waiting++;
	return backlog;
}

void listener_answered(struct id *request)
{
	if (request->backlog)
		request->backlog->n_waiting--;
	request->backlog = backlog_unref(request->backlog);
}

void listener_set_rule(struct listener *listener, const struct policy_rule *rule)
{
	int max = rule->settings.backlog;

	if (max > 0 && listener->backlog->max > (unsigned)max)
		listener->backlog->max = (unsigned)max;
}

int listener_charge(struct session *session, struct charge *charge)
{
	return session_charge(session, charge, ACCOUNT_LISTENERS, 1, "listeners",
			      "ListenersPerUser=");
}

DEFINE_CLEANUP(struct listener *, listener_free)

static int listener_new(struct listener **ret, struct id *id, unsigned backlog)
{
	_cleanup_(listener_freep) struct listener *listener = calloc(1, sizeof(*listener));
	int r;

	if (!listener)
		return -ENOMEM;
	r = backlog_new(&listener->backlog, backlog);
	if (r == 0)
		r = listener_charge(id->session, &listener->charge);
	if (r != 0)
		return r;
	listener->id = id;
	list_init(&listener->takers);
	listener->owner.session = id->session;
	list_insert(&listener->takers, &listener->owner.link);
	*ret = TAKE_PTR(listener);
	return 0;
}

struct listener *listener_free(struct listener *listener)
{
	if (!listener)
		return NULL;
	charge_done(&listener->charge);
	backlog_unref(listener->backlog);
	free(listener);
	return NULL;
}

void wish_to_listen(struct id_wish *ret, struct id *id)
{
	struct policy_question *question = &ret->wish.question;

	ret->wish = (struct wish){
		.question = { .operation = POLICY_LISTEN, .port_space = id->ps },
		.what = "listen on",
		.id = id,
	};
	fabric_id_get_info(id->fabric, &ret->info);
	id_fill_question(&ret->info, question);
	question->peer = NULL;
	question->port = addr_port((struct sockaddr *)&ret->info.local);
	ret->wish.addrs[0] = (struct sockaddr *)&ret->info.local;
}

static int decide_listen(struct id *id, const struct policy_rule **ret)
{
	struct core *core = id->session->core;
	struct policy_verdict verdict;
	char object[WISH_OBJECT_LEN];
	struct id_wish wish;
	int r;

	wish_to_listen(&wish, id);
	decide(id->session, &wish.wish, &verdict);
	if (verdict.answer != POLICY_ALLOW)
		return failure_set_denied(&id->session->failure, &verdict,
					  "uid %u may not listen on %s", id->session->identity.uid,
					  wish_object(&wish.wish, object));
	/* The id may have been bound under an earlier policy. */
	r = bind_check_port(id->session, id->ps, wish.wish.addrs[0], "listen on");
	if (r != 0)
		return r;
	r = decide_admit(id->session, &wish.wish, verdict.rule,
			 admissions_find(core->admissions, verdict.rule), /* pending= */ false,
			 &id->admitted);
	if (r == 0)
		*ret = verdict.rule;
	return r;
}

int id_listen(struct id *id, unsigned backlog)
{
	struct core *core = id->session->core;
	const struct policy_rule *rule;
	struct listener *listener;
	unsigned max, waiting;
	int r;

	r = session_take_new(id->session, "listen");
	if (r == 0)
		r = wait_for_devices(id->session, "listen");
	if (r != 0)
		return r;
	/* As the kernel does for an id that is not bound. */
	if (id->state == ID_IDLE) {
		r = id_bind_any(id);
		if (r != 0)
			return r;
	}
	if (id->state != ID_BOUND)
		return id_refuse_state(id, "listen");
	if (id->reuseaddr)
		return failure_set(&id->session->failure, STATUS_BAD_STATE,
				   "listen: id %u is bound with REUSEADDR, which is for connecting",
				   id->handle);
	r = decide_listen(id, &rule);
	if (r != 0)
		return r;

	max = rule->settings.backlog > 0 ? (unsigned)rule->settings.backlog : INT32_MAX;
	if (backlog == 0)
		backlog = rule->settings.backlog > 0 ? max : (unsigned)core->settings.backlog;
	if (backlog > max)
		backlog = max;

	/*
	 * With librdmacm a small backlog only makes peers wait: the kernel drops the requests beyond it, and
	 * the peers send them again. Here they would be rejected. So a client's backlog below the default
	 * counts as the default here, unless the rule sets a backlog.
	 */
	waiting = backlog;
	if (rule->settings.backlog <= 0 && waiting < (unsigned)core->settings.backlog)
		waiting = (unsigned)core->settings.backlog;
	r = listener_new(&listener, id, waiting);
	if (r == 0) {
		r = fabric_id_listen(id->fabric, (int)backlog);
		if (r < 0) {
			listener_free(listener);
			r = failure_set_bind(&id->session->failure, r, "listen", NULL);
		}
	}
	if (r != 0) {
		admitted_done(&id->admitted);
		return r;
	}
	id->listener = listener;
	id_set_rule(id, rule);
	id_set_state(id, ID_LISTENING);
	return 0;
}

void listener_set_id(struct listener *listener, struct id *id, struct charge *charge)
{
	charge_done(&listener->charge);
	listener->charge = *charge;
	listener->id = id;
	listener->owner.session = id->session;
}

/* There is only one taker so far. Shared listeners will choose the least loaded one. */
static struct session *next_taker(struct listener *listener)
{
	return container_of(list_first(&listener->takers), struct taker, link)->session;
}

static void turn_away(const struct listener *listener, struct fabric_id *request,
		      enum refusal_code code, uint32_t retry_after_ms, const char *text)
{
	uint8_t data[REFUSAL_MAX];
	size_t max = id_is_datagram(listener->id) ? REFUSAL_MAX_LOOKUP : REFUSAL_MAX;
	size_t len = refusal_pack(data, max, code, retry_after_ms, text);

	/* If the reject cannot be sent, freeing the request rejects it without private data. */
	fabric_id_reject(request, data, (uint8_t)len, /* ece= */ false);
	fabric_id_free(request);
}

void listener_turn_away(struct id *request, enum refusal_code code, uint32_t retry_after_ms,
			const char *text)
{
	uint8_t data[REFUSAL_MAX];
	size_t max = id_is_datagram(request) ? REFUSAL_MAX_LOOKUP : REFUSAL_MAX;
	size_t len = refusal_pack(data, max, code, retry_after_ms, text);

	fabric_id_reject(request->fabric, data, (uint8_t)len, /* ece= */ false);
}

/*
 * A datagram QP has no single peer: each send names its destination. So only the attributes for INIT are
 * needed.
 */
int listener_fill_request(struct id *request, struct session_event *event)
{
	int r = id_qp_attr(request, IBV_QPS_INIT, &event->init);

	if (id_is_datagram(request))
		return r;
	if (r == 0)
		r = id_qp_attr(request, IBV_QPS_RTR, &event->rtr);
	if (r == 0)
		r = id_qp_attr(request, IBV_QPS_RTS, &event->rts);
	return r;
}

void wish_to_accept(struct id_wish *ret, struct fabric_id *request, enum rdma_port_space ps,
		    const struct fabric_event *event)
{
	struct policy_question *question = &ret->wish.question;

	ret->wish = (struct wish){
		.question = { .operation = POLICY_ACCEPT, .port_space = ps },
		.what = "request from",
	};
	fabric_id_get_info(request, &ret->info);
	id_fill_question(&ret->info, question);
	question->port = addr_port((struct sockaddr *)&ret->info.local);
	if (event) {
		question->knows_data = true;
		question->data = event->conn.private_data;
		question->data_len = event->conn.private_data_len;
	}
	ret->wish.addrs[0] = (struct sockaddr *)&ret->info.peer;
	ret->wish.addrs[1] = (struct sockaddr *)&ret->info.local;
}

/* RULE allows the request. Beyond the listener's backlog it is refused as if a limit of RULE were reached. */
static int check_backlog(const struct listener *listener, struct session *session,
			 const struct wish *wish, const struct policy_rule *rule)
{
	struct tally *tally = admissions_find(session->core->admissions, rule);
	struct overflow overflow = { .retry_after_ms = RETRY_BACKLOG_MS };

	if (listener->backlog->n_waiting < listener->backlog->max)
		return 0;
	snprintf(overflow.limit, sizeof(overflow.limit), "backlog %u", listener->backlog->max);
	tally->n_busy++;
	return decide_busy(session, wish, rule, tally, &overflow);
}

/* 0; or the peer was rejected: STATUS_DENIED, STATUS_BUSY, STATUS_DRAINING or a negative errno. */
static int admit(struct listener *listener, struct session *session, struct fabric_event *event,
		 const struct policy_rule **ret_rule, struct admitted *ret)
{
	struct failure *failure = &session->failure;
	struct policy_verdict verdict;
	struct id_wish wish;
	int r;

	r = session_take_new(session, "accept");
	if (r != 0) {
		turn_away(listener, event->request, REFUSAL_DRAINING, /* retry_after_ms= */ 0,
			  "draining");
		return r;
	}
	wish_to_accept(&wish, event->request, listener->id->ps, event);
	wish.wish.id = listener->id;
	decide(session, &wish.wish, &verdict);
	if (verdict.answer != POLICY_ALLOW) {
		turn_away(listener, event->request, verdict.rule ? REFUSAL_DENIED : REFUSAL_NO_RULE,
			  0, verdict.reason);
		return STATUS_DENIED;
	}
	r = check_backlog(listener, session, &wish.wish, verdict.rule);
	if (r == 0)
		r = decide_admit(session, &wish.wish, verdict.rule,
				 admissions_find(session->core->admissions, verdict.rule),
				 /* pending= */ true, ret);
	if (r != 0)
		turn_away(listener, event->request, REFUSAL_BUSY,
			  r > 0 ? failure->retry_after_ms : 1000, "busy");
	*ret_rule = verdict.rule;
	return r;
}

void listener_on_request(struct listener *listener, struct fabric_event *event)
{
	struct session *session = next_taker(listener);
	struct session_event out = { .fabric = event, .type = event->type };
	struct admitted admitted = { 0 };
	const struct policy_rule *rule;
	struct id *id;
	int r;

	if (admit(listener, session, event, &rule, &admitted) != 0)
		return;

	r = id_new_request(&id, session, event, listener->id->ps);
	if (r != 0) {
		log_limited(session_log_limit(session), LOG_WARNING,
			    "Session %llu: a request is turned away: %s.",
			    (unsigned long long)session->number,
			    r < 0 ? "out of memory" : session->failure.text);
		turn_away(listener, event->request, REFUSAL_BUSY, 1000, "too many ids");
		admitted_done(&admitted);
		return;
	}

	id_set_rule(id, rule);
	id->admitted = admitted;
	id->backlog = backlog_enter(listener->backlog);
	id->tos_asked = listener->id->tos_asked;
	r = conn_apply_settings(id);
	if (r == 0)
		r = listener_fill_request(id, &out);
	if (r != 0) {
		/* The peer gave up in the meantime, or the device is being removed. */
		id_free(id);
		return;
	}
	out.request = id;
	out.caps = id_get_caps(id);
	id_tell(listener->id, &out);
}
