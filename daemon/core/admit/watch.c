/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/admit/watch.h"
#include "core/object/id.h"
#include "core/object/quota.h"
#include "proto/addr.h"

int watch_start(struct session *session, const struct watch_filter *filter, struct failure *failure)
{
	struct watch *watch = session->watch;
	int r;

	if (!watch) {
		watch = calloc(1, sizeof(*watch));
		if (!watch)
			return failure_errno(failure, -ENOMEM);
		r = quota_charge(session, &watch->charge, ACCOUNT_WATCHES, 1, failure);
		if (r != 0) {
			free(watch);
			return r;
		}
		watch->session = session;
		list_insert(&session->core->watches, &watch->link);
		session->watch = watch;
		session_save(session);
	}
	watch->filter = *filter;
	return 0;
}

struct watch *watch_free(struct watch *watch)
{
	if (!watch)
		return NULL;
	list_remove(&watch->link);
	charge_done(&watch->charge);
	free(watch);
	return NULL;
}

static bool has_port(const struct sockaddr *addr, uint16_t port)
{
	return addr && addr_port(addr) == port;
}

static bool passes(const struct watch_filter *filter, const struct notice *notice)
{
	const struct sockaddr *peer = (const struct sockaddr *)&filter->peer;
	bool decision = notice->kind == NOTICE_DECISION;

	return (filter->kind < 0 || filter->kind == (int)notice->kind) &&
	       (filter->operation < 0 ||
		(decision && filter->operation == (int)notice->operation)) &&
	       (filter->outcome < 0 || (decision && filter->outcome == (int)notice->outcome)) &&
	       (!filter->by_uid || filter->uid == notice->session->identity.uid) &&
	       (filter->session == 0 || filter->session == notice->session->number) &&
	       (peer->sa_family == AF_UNSPEC ||
		(notice->peer && addr_is_same_host(peer, notice->peer))) &&
	       (filter->port == 0 || has_port(notice->local, filter->port) ||
		has_port(notice->peer, filter->port));
}

static void tell(struct notice *notice)
{
	struct notice_packet packet;
	struct list *l;

	packet.len = 0;
	notice->packet = &packet;
	notice->time_ns = notice_time_ns();
	list_for_each(l, &notice->session->core->watches) {
		struct watch *watch = container_of(l, struct watch, link);

		if (passes(&watch->filter, notice))
			watch->session->ops->notice(watch->session->userdata, notice);
	}
}

void watch_decision(const struct session *session, const struct intent *intent,
		    const struct policy_verdict *verdict, const struct overflow *overflow)
{
	const struct policy_question *question = &intent->question;
	bool rejected = verdict->answer == POLICY_REJECT;
	struct notice notice = {
		.kind = NOTICE_DECISION,
		.session = session,
		.id = intent->id,
		.local = question->local,
		.peer = question->peer,
		.device = question->device,
		.port_space = question->port_space,
		.rule = verdict->rule,
		.reason = verdict->reason,
		.operation = question->operation,
		.outcome = overflow              ? NOTICE_BUSY :
			   rejected              ? NOTICE_REJECTED :
			   policy_warns(verdict) ? NOTICE_WARNED :
						   NOTICE_ALLOWED,
		.asked = intent->asked,
		.peerid = intent->peerid,
	};

	if (overflow) {
		notice.reason = overflow->limit;
		notice.retry_after_ms = overflow->retry_after_ms;
	}
	tell(&notice);
}

/* The reason of a failure, from this broker or from the peer's; NULL: none. */
static const char *reason_of(const struct session_event *event, struct refusal *space)
{
	const struct rdma_conn_param *conn;

	if (event->failure)
		return event->failure->text;
	if (!event->fabric)
		return NULL;
	conn = &event->fabric->conn;
	if ((event->type == RDMA_CM_EVENT_REJECTED || event->type == RDMA_CM_EVENT_UNREACHABLE) &&
	    refusal_unpack(space, conn->private_data, conn->private_data_len))
		return space->text;
	return NULL;
}

void watch_cm(const struct session_event *event)
{
	/* For a connection request, report the facts of the new id. */
	const struct id *about = event->request ?: event->id;
	struct fabric_id_info info = { 0 };
	struct refusal refusal;
	struct notice notice = {
		.kind = NOTICE_CM,
		.session = event->id->session,
		.id = event->id,
		.request = event->request,
		.port_space = event->id->ps,
		.rule = about->grant.rule,
		.reason = reason_of(event, &refusal),
		.event = (unsigned)event->type < METRICS_N_EVENTS ? event_names[event->type] : NULL,
		.status = event->status,
	};

	/* A revoked id no longer has a fabric id. */
	if (about->fabric) {
		fabric_id_get_info(about->fabric, &info);
		notice.device = info.device;
	}
	if (info.local.ss_family != AF_UNSPEC)
		notice.local = (struct sockaddr *)&info.local;
	if (event->group)
		notice.peer = event->group;
	else if (info.peer.ss_family != AF_UNSPEC)
		notice.peer = (struct sockaddr *)&info.peer;
	tell(&notice);
}

void watch_session(const struct session *session, const char *event, const char *reason)
{
	struct notice notice = {
		.kind = NOTICE_SESSION,
		.session = session,
		.rule = session->rule,
		.reason = reason,
		.event = event,
	};

	tell(&notice);
}
