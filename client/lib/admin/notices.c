/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/admin.h"
#include "client/lib/admin/notices.h"
#include "client/lib/admin/peeridentity.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"
#include "proto/address.h"
#include "proto/names.h"

/*
 * The maximum number of queued notices. If the queue is full, because the program does not take them, new ones are
 * dropped.
 */
#define NOTICES_MAX 4096

#define NOTICES_BYTES_MAX (32 << 20) /* the maximum size of all queued notices together, in bytes */

struct notice {
	struct rdmabroker_notice public;
	struct rdmabroker_peer_identity peer_identity; /* PUBLIC points to it, if it is known */
	TAILQ_ENTRY(notice) link; /* notices.list */
	Rdmabroker__Frame *frame; /* PUBLIC points into it; NULL: made by the library */
};

static int find(const char *const *names, const char *name)
{
	for (int i = 0; names[i]; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

/* NAMES[NUMBER - 1]; OTHER if NUMBER is out of range. */
static const char *name_of(const char *const *names, int number, const char *other)
{
	for (int i = 0; names[i]; i++)
		if (i + 1 == number)
			return names[i];
	return other;
}

const char *rdmabroker_operation_str(enum rdmabroker_operation operation)
{
	return name_of(operation_names, (int)operation, "unknown operation");
}

const char *rdmabroker_notice_kind_str(enum rdmabroker_notice_kind kind)
{
	return name_of(notice_kind_names, (int)kind, "unknown kind");
}

const char *rdmabroker_outcome_str(enum rdmabroker_outcome outcome)
{
	return name_of(outcome_names, (int)outcome, "unknown outcome");
}

static void fill(struct notice *notice, const Rdmabroker__Notice *in)
{
	struct rdmabroker_notice *ret = &notice->public;

	*ret = (struct rdmabroker_notice){
		.size = sizeof(*ret),
		.n_lost = in->lost,
		.time_ns = in->time_ns,
		.kind = (enum rdmabroker_notice_kind)(find(notice_kind_names, in->kind) + 1),
		.session = in->session,
		.uid = in->uid,
		.pid = (int)in->pid,
		.unit = message_get_text(in->unit),
		.id = in->id,
		.request_id = in->request_id,
		.operation = (enum rdmabroker_operation)(find(operation_names, in->operation) + 1),
		.outcome = (enum rdmabroker_outcome)(find(outcome_names, in->outcome) + 1),
		.retry_after_ms = in->retry_after_ms,
		.event = RDMABROKER_EVENT_NONE,
		.kind_name = in->kind,
		.operation_name = message_get_text(in->operation),
		.outcome_name = message_get_text(in->outcome),
		.event_name = message_get_text(in->event),
		.opened = strcmp(in->event, "opened") == 0,
		.status = in->status,
		.ps = (enum rdmabroker_port_space)in->port_space,
		.qp_num = in->qp_num,
		.rule = message_get_text(in->rule),
		.rule_text = message_get_text(in->rule_text),
		.reason = message_get_text(in->reason),
		.question = in->question,
		.peer_qp_num = in->peer_qpn,
		.peer_unknown = message_get_text(in->peer_unknown),
	};
	if (in->peer_identity) {
		peeridentity_get(&notice->peer_identity, in->peer_identity);
		ret->peer_identity = &notice->peer_identity;
	}
	if (ret->kind == RDMABROKER_NOTICE_CM)
		ret->event = (enum rdmabroker_event_type)find(event_names, in->event);
	if (in->workload) {
		ret->container = message_get_text(in->workload->container);
		ret->pod = message_get_text(in->workload->pod);
		ret->job = message_get_text(in->workload->job);
		ret->cgroup = message_get_text(in->workload->cgroup);
	}
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

void notices_receive(struct rdmabroker *session, Rdmabroker__Frame *frame)
{
	struct notices *notices = session->notices;
	struct notice *notice = NULL;
	size_t size = frame_get_size(frame);

	if (notices->watching && notices->n < NOTICES_MAX &&
	    notices->n_bytes + size <= NOTICES_BYTES_MAX)
		notice = calloc(1, sizeof(*notice));
	if (!notice) {
		/* Count this notice, and the notices that the daemon dropped before it. */
		if (notices->watching)
			notices->n_lost += 1 + frame->notice->lost;
		frame_free(frame);
		return;
	}
	fill(notice, frame->notice);
	notice->public.n_lost += notices->n_lost;
	notices->n_lost = 0;
	notice->frame = frame;
	TAILQ_INSERT_TAIL(&notices->list, notice, link);
	notices->n++;
	notices->n_bytes += size;
}

static void notice_free(struct notice *notice)
{
	if (notice->frame)
		frame_free(notice->frame);
	free(notice);
}

void notices_done(struct notices *notices)
{
	struct notice *notice;

	while ((notice = TAILQ_FIRST(&notices->list))) {
		TAILQ_REMOVE(&notices->list, notice, link);
		notice_free(notice);
	}
}

/*
 * Sets *RET to the name of NUMBER, the value of the filter's MEMBER. NUMBER 0 matches any notice, and does not set
 * *RET.
 */
static int out_name(char **ret, const char *const *names, int number, const char *member)
{
	if (number == 0)
		return 0;
	*ret = (char *)name_of(names, number, NULL);
	return *ret ? 0 : fail(EINVAL, "watch: filter.%s is %d, an unknown value", member, number);
}

static int out_filter(Rdmabroker__Watch *m, const struct rdmabroker_filter *from_program,
		      Rdmabroker__Address *peer)
{
	struct rdmabroker_filter filter = RDMABROKER_FILTER_INIT;
	int r = 0;

	if (from_program)
		r = SIZED_TAKE(&filter, from_program, "watch", rdmabroker_filter, port, port);
	if (r == 0)
		r = out_name(&m->kind, notice_kind_names, (int)filter.kind, "kind");
	if (r == 0)
		r = out_name(&m->operation, operation_names, (int)filter.operation, "operation");
	if (r == 0)
		r = out_name(&m->outcome, outcome_names, (int)filter.outcome, "outcome");
	if (r < 0)
		return r;
	m->by_uid = filter.uid != NULL;
	m->uid = filter.uid ? *filter.uid : 0;
	m->session = filter.session;
	m->port = filter.port;
	if (!filter.peer)
		return 0;
	m->peer = peer;
	return message_put_address(peer, filter.peer);
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
	int r;

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
	int r = wire_check_process(&session->wire);

	if (r == 0)
		r = out_filter(&m, filter, &peer);
	return r < 0 ? r : notices_request(session, "watch", &request);
}

/* Queues a LOST notice, if no later notice has reported the number of dropped ones. */
static int make_lost(struct notices *notices)
{
	struct notice *notice = calloc(1, sizeof(*notice));
	struct timespec now;

	if (!notice)
		return fail(ENOMEM, "get_notice: out of memory");
	clock_gettime(CLOCK_REALTIME, &now);
	notice->public.time_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	notice->public.size = sizeof(notice->public);
	notice->public.kind = RDMABROKER_NOTICE_LOST;
	notice->public.kind_name = rdmabroker_notice_kind_str(RDMABROKER_NOTICE_LOST);
	notice->public.event = RDMABROKER_EVENT_NONE;
	notice->public.n_lost = notices->n_lost;
	notices->n_lost = 0;
	TAILQ_INSERT_TAIL(&notices->list, notice, link);
	notices->n++;
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

static struct notice *take(struct notices *notices)
{
	struct notice *notice = TAILQ_FIRST(&notices->list);

	TAILQ_REMOVE(&notices->list, notice, link);
	notices->n--;
	if (notice->frame)
		notices->n_bytes -= frame_get_size(notice->frame);
	return notice;
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
		*ret = &take(session->notices)->public;
	wire_unlock(&session->wire);
	return r;
}

struct rdmabroker_notice *rdmabroker_free_notice(struct rdmabroker_notice *public)
{
	if (public)
		notice_free((struct notice *)public);
	return NULL;
}
