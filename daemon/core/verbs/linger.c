/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <sys/epoll.h>

#include "core/object/core.h"
#include "core/verbs/lease.h"
#include "core/verbs/linger.h"
#include "core/verbs/session_life.h"
#include "proto/timer.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/util.h"

#define ENDS_A_TURN 16 /* processes whose ends are handled in one turn of the loop */

struct lingering {
	struct list link; /* lingers.list */
	UT_hash_handle hh; /* lingers.by_pid */
	pid_t pid;
	struct session *session;
	uint64_t until_ms; /* CLOCK_MONOTONIC */
};

static void set_timer(struct lingers *lingers)
{
	struct list *first = list_first(&lingers->list);

	if (first)
		timer_start_at(lingers->timer,
			       container_of(first, struct lingering, link)->until_ms * 1000);
	else
		timer_stop(lingers->timer);
}

static struct lingering *lingering_free(struct lingering *lingering)
{
	struct lingers *lingers = lingering->session->core->lingers;

	/* Closing the descriptor would not end the watch while systemd has its copy, see socketstore.h. */
	crowd_remove(&lingers->crowd, lingering->session->identity.pidfd);
	list_remove(&lingering->link);
	HASH_DEL(lingers->by_pid, lingering);
	set_timer(lingers);
	session_free(lingering->session);
	free(lingering);
	return NULL;
}

static void end(struct lingering *lingering, const char *why)
{
	log_debug("Session %llu, which has lost its client's socket, ends: %s.",
		  (unsigned long long)lingering->session->number, why);
	session_set_end_reason(lingering->session, why);
	lingering_free(lingering);
}

/* The operations of a session that lingers. It has no ids and makes no requests. */

static void on_event(void *userdata, const struct session_event *event)
{
}

static void on_forget(void *userdata, struct id *id)
{
}

static void on_end(void *userdata, const char *why)
{
	struct lingering *lingering = userdata;
	struct lingers *lingers = lingering->session->core->lingers;

	session_set_end_reason(lingering->session, why);
	lingering->until_ms = 0;
	list_remove(&lingering->link);
	list_insert(list_first(&lingers->list) ?: &lingers->list, &lingering->link);
	set_timer(lingers);
}

static void on_resume(void *userdata, uint32_t handle)
{
}

static bool on_notice(void *userdata, const struct notice *notice)
{
	return true;
}

static const struct session_ops ops = {
	.event = on_event,
	.forget = on_forget,
	.end = on_end,
	.resume = on_resume,
	.notice = on_notice,
};

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct core *core = userdata;
	struct list *first = list_first(&core->lingers->list);
	struct lingering *lingering;

	if (!first)
		return 0;
	/* One at a time; the timer is due again at once if there is another. */
	lingering = container_of(first, struct lingering, link);
	if (lingering->until_ms == 0)
		lingering_free(lingering);
	else if (lingering->until_ms <= clock_ms())
		end(lingering, "its client has not come back (ResumeTimeoutSec=)");
	else
		set_timer(core->lingers);
	return 0;
}

static bool on_process_end(void *object, uint32_t events)
{
	end(object, "its client's process has ended");
	return true;
}

int lingers_init(struct core *core)
{
	struct lingers *lingers = core->lingers;
	int r;

	list_init(&lingers->list);
	r = crowd_init(&lingers->crowd, core->loop, ENDS_A_TURN, on_process_end);
	if (r >= 0)
		r = timer_new(&lingers->timer, core->loop, 1, on_timer, core);
	return r < 0 ? r : 0;
}

void lingers_done(struct core *core)
{
	struct lingers *lingers = core->lingers;
	struct list *first;

	while ((first = list_first(&lingers->list)))
		lingering_free(container_of(first, struct lingering, link));
	crowd_done(&lingers->crowd);
	sd_event_source_disable_unref(lingers->timer);
}

static struct lingering *find(struct core *core, pid_t pid)
{
	struct lingering *lingering;

	HASH_FIND(hh, core->lingers->by_pid, &pid, sizeof(pid), lingering);
	return lingering;
}

/*
 * What the process of SESSION has left; NULL: nothing. While a process that was identified lives, no other has its pid.
 */
static struct lingering *find_own(struct session *session)
{
	const struct identity *identity = &session->identity;
	struct lingering *lingering = identity->proven ? find(session->core, identity->pid) : NULL;

	return lingering && lingering->session->identity.uid == identity->uid &&
			       identity_is_alive(&lingering->session->identity) ?
		       lingering :
		       NULL;
}

static bool may_linger(const struct session *session)
{
	const struct core *core = session->core;

	return session->keeps_leases && session->opened &&
	       session->permits & SESSION_PERMIT_CLIENT && !session->lends && !core->draining &&
	       core->settings.resume_timeout_ms > 0 && session->identity.proven &&
	       identity_is_alive(&session->identity) && lease_count(session) > 0;
}

static struct lingering *lingering_new(struct session *session)
{
	struct lingers *lingers = session->core->lingers;
	struct lingering *lingering = calloc(1, sizeof(*lingering));

	if (!lingering)
		return NULL;
	lingering->session = session;
	lingering->pid = session->identity.pid;
	lingering->until_ms = clock_ms() + session->core->settings.resume_timeout_ms;
	HASH_ADD_OR_FREE(lingers->by_pid, pid, lingering);
	if (!lingering)
		return NULL;
	if (crowd_add(&lingers->crowd, session->identity.pidfd, EPOLLIN, lingering) != 0) {
		HASH_DEL(lingers->by_pid, lingering);
		free(lingering);
		return NULL;
	}
	list_init(&lingering->link);
	list_insert(&lingers->list, &lingering->link);
	set_timer(lingers);
	return lingering;
}

bool linger_begin(struct session *session)
{
	struct lingering *before, *lingering;

	lease_drop_unopened(session);
	if (!may_linger(session))
		return false;
	before = find(session->core, session->identity.pid);
	if (before) {
		if (before == find_own(session))
			lease_take_over(session, before->session);
		end(before, "another session of its process lingers");
	}
	lingering = lingering_new(session);
	if (!lingering)
		return false;
	session_leave_client(session, &ops, lingering);
	log_debug(
		"Session %llu, uid %u, pid %d: the client has lost its socket; its leases are kept.",
		(unsigned long long)session->number, session->identity.uid, session->identity.pid);
	return true;
}

bool linger_has_leases_for(struct session *session)
{
	return find_own(session) != NULL;
}

bool linger_resume(struct session *session)
{
	struct lingering *lingering = find_own(session);

	if (!lingering)
		return false;
	lease_take_over(session, lingering->session);
	end(lingering, "its client has opened another session");
	return true;
}
