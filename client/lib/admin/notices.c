/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <time.h>

#include "client/admin.h"
#include "client/lib/admin/notices.h"
#include "client/lib/admin/replies.h"
#include "client/lib/admin/who.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/sessionparts.h"
#include "proto/address.h"

/*
 * The maximum number of queued notices. If the queue is full, because the program does not take them, new ones are
 * dropped.
 */
#define NOTICES_MAX 4096

#define NOTICES_BYTES_MAX (32 << 20) /* the maximum size of all queued notices together, in bytes */

struct notice {
	struct rdmabroker_notice public;
	TAILQ_ENTRY(notice) link; /* notices.list */
	size_t size; /* the memory of the packet */
};

static void fill(struct rdmabroker_notice *ret, const Rdmabroker__Notice *in)
{
	*ret = (struct rdmabroker_notice){
		.n_lost = in->lost,
		.time_ns = in->time_ns,
		.kind = in->kind,
		.operation = message_get_text(in->operation),
		.outcome = message_get_text(in->outcome),
		.event = message_get_text(in->event),
		.session = in->session,
		.id = in->id,
		.request_id = in->request_id,
		.retry_after_ms = in->retry_after_ms,
		.status = in->status,
		.ps = (enum rdmabroker_port_space)in->port_space,
		.qp_num = in->qp_num,
		.rule = message_get_text(in->rule),
		.rule_text = message_get_text(in->rule_text),
		.reason = message_get_text(in->reason),
		.question = in->question,
		.peer_qp_num = in->peer_qpn,
	};
	who_get(&ret->who, in->uid, in->unit, in->workload);
	ret->who.pid = (int)in->pid;
	who_get_peer(&ret->who_peer, in->peer_identity, in->peer_unknown);
	if (!in->info)
		return;
	ret->device = message_get_text(in->info->device);
	address_unpack(&ret->local, in->info->local);
	address_unpack(&ret->peer, in->info->peer);
}

void notices_init(struct notices *notices)
{
	TAILQ_INIT(&notices->list);
}

bool notices_has_any(const struct notices *notices)
{
	return !TAILQ_EMPTY(&notices->list) || notices->n_lost > 0;
}

/* FRAME NULL: the library itself makes the notice. Takes ownership of FRAME. NULL: out of memory. */
static struct notice *add(struct notices *notices, Rdmabroker__Frame *frame)
{
	struct replies replies = { .call = "get_notice" };
	size_t size = frame ? frame_get_size(frame) : 0;
	struct notice *notice;

	if (frame && replies_add(&replies, frame) < 0)
		return NULL;
	notice = replies_keep(&replies, sizeof(*notice));
	if (!notice)
		return NULL;
	notice->size = size;
	TAILQ_INSERT_TAIL(&notices->list, notice, link);
	notices->n++;
	notices->n_bytes += size;
	return notice;
}

void notices_receive(struct rdmabroker *session, Rdmabroker__Frame *frame)
{
	struct notices *notices = session->notices;
	const Rdmabroker__Notice *in = frame->notice;
	uint64_t n_lost = 1 + in->lost; /* with those that the daemon dropped before it */
	struct notice *notice = NULL;

	if (notices->watching && notices->n < NOTICES_MAX &&
	    notices->n_bytes + frame_get_size(frame) <= NOTICES_BYTES_MAX)
		notice = add(notices, frame);
	else
		frame_free(frame);
	if (notice) {
		fill(&notice->public, in);
		notice->public.n_lost += notices->n_lost;
		notices->n_lost = 0;
	} else if (notices->watching) {
		notices->n_lost += n_lost;
	}
}

void notices_done(struct notices *notices)
{
	struct notice *notice;

	while ((notice = TAILQ_FIRST(&notices->list))) {
		TAILQ_REMOVE(&notices->list, notice, link);
		rdmabroker_free(notice);
	}
}

static bool set_wanted(struct rdmabroker *session, bool watching)
{
	struct notices *notices = session->notices;
	bool was;

	wire_lock(&session->wire);
	was = notices->watching;
	notices->watching = watching;
	wire_unlock(&session->wire);
	return was;
}

int notices_request(struct rdmabroker *session, const char *name, Rdmabroker__Request *request)
{
	/* Before the request is sent, because notices can follow directly after its reply. */
	bool was;
	int r = wire_check_process(&session->wire);

	if (r < 0)
		return r;
	/* Its descriptor is readable once for each event, and a notice is none. */
	if (wire_is_direct(&session->wire))
		return fail(EINVAL, "%s: a session with options.replies gets no notices", name);
	was = set_wanted(session, true);
	r = call_wait(&session->wire, name, request);
	/* Keep watching after a timeout, because the daemon may have accepted the request. */
	if (r < 0 && r != -ETIMEDOUT && !was)
		set_wanted(session, false);
	return r;
}

int rdmabroker_watch(struct rdmabroker *session, const struct rdmabroker_filter *filter)
{
	REQUEST(request, m, Watch, WATCH, watch);
	Rdmabroker__Address peer;
	int r = 0;

	if (filter && filter->peer)
		r = message_put_address(m.peer = &peer, filter->peer);
	if (r < 0)
		return r;
	if (filter) {
		m.kind = message_put_text(filter->kind);
		m.operation = message_put_text(filter->operation);
		m.outcome = message_put_text(filter->outcome);
		m.by_uid = filter->uid != NULL;
		m.uid = filter->uid ? *filter->uid : 0;
		m.session = filter->session;
		m.port = filter->port;
	}
	return notices_request(session, "watch", &request);
}

/* Queues a notice of the kind "lost", if no later notice has reported the number of dropped ones. */
static int make_lost(struct notices *notices)
{
	struct notice *notice = add(notices, NULL);
	struct timespec now;

	if (!notice)
		return -ENOMEM;
	clock_gettime(CLOCK_REALTIME, &now);
	notice->public.time_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	notice->public.kind = "lost";
	notice->public.n_lost = notices->n_lost;
	notices->n_lost = 0;
	return 0;
}

static int await_notice(struct rdmabroker *session, int64_t deadline)
{
	struct notices *notices = session->notices;
	bool looked = false;
	int r;

	if (!notices->watching)
		return fail(EINVAL, "get_notice: rdmabroker_watch() was not called");
	while (TAILQ_EMPTY(&notices->list)) {
		if (notices->n_lost > 0)
			return make_lost(notices);
		r = wire_check(&session->wire);
		if (r < 0)
			return r;
		/* Even with a timeout of 0 the socket is polled once. */
		if (pump_is_past(deadline, looked))
			return fail(EAGAIN, "get_notice: no notice");
		looked = pump_packet(&session->wire, deadline) == -ETIMEDOUT;
	}
	return 0;
}

static struct rdmabroker_notice *take(struct notices *notices)
{
	struct notice *notice = TAILQ_FIRST(&notices->list);

	TAILQ_REMOVE(&notices->list, notice, link);
	notices->n--;
	notices->n_bytes -= notice->size;
	return &notice->public;
}

int rdmabroker_get_notice(struct rdmabroker *session, int timeout_ms,
			  struct rdmabroker_notice **ret)
{
	int r = wire_check_process(&session->wire);

	if (r < 0)
		return r;
	wire_lock(&session->wire);
	r = await_notice(session, deadline_after(timeout_ms));
	if (r == 0)
		*ret = take(session->notices);
	wire_unlock(&session->wire);
	return r;
}
