/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "core/object/session.h"
#include "core/object/wait.h"
#include "proto/timer.h"
#include "util/clock.h"
#include "util/hot.h"
#include "util/util.h"

#define WAIT_MS 5000 /* shorter than a client waits for a reply */
#define WAIT_FOR_OTHERS_MS 100 /* a limit, because a busy loop is never idle */

static struct session *session_of(struct list *l)
{
	return container_of(l, struct session, waiting);
}

static void rearm(struct waits *waits)
{
	uint64_t first = UINT64_MAX;
	struct list *l;

	list_for_each(l, &waits->sessions)
		if (session_of(l)->wait.until_ms < first)
			first = session_of(l)->wait.until_ms;
	if (first == UINT64_MAX)
		timer_stop(waits->timer);
	else
		timer_start_at(waits->timer, first * 1000);
}

static bool is_over(const struct session *session, in_port_t port)
{
	return clock_ms() >= session->wait.until_ms;
}

static bool may_go_on(const struct session *session, in_port_t port)
{
	return port == 0 || (session->wait.port == port && !session->wait.for_others);
}

static bool is_for_others(const struct session *session, in_port_t port)
{
	return session->wait.for_others;
}

static void resume_if(struct waits *waits, bool (*filter)(const struct session *session, in_port_t),
		      in_port_t port)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &waits->sessions) {
		struct session *session = session_of(l);

		if (!filter(session, port))
			continue;
		list_remove(l);
		session->ops->resume(session->userdata, /* handle= */ 0);
	}
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct waits *waits = userdata;

	resume_if(waits, is_over, 0);
	rearm(waits);
	return 0;
}

/* The set of hot descriptors is no source of the loop if it is the host, so the loop does not know that it is ready. */
static int on_idle(sd_event_source *source, void *userdata)
{
	struct waits *waits = userdata;

	if (hot_is_ready(waits->hot))
		timer_defer(source);
	else
		resume_if(waits, is_for_others, 0);
	return 0;
}

static int on_next_turn(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct waits *waits = userdata;

	session_resume_all(&waits->in_slices);
	return 0;
}

int waits_init(struct waits *waits, sd_event *loop)
{
	int r;

	list_init(&waits->sessions);
	list_init(&waits->in_slices);
	waits->max_ms = WAIT_MS;
	waits->hot = hot_ref(loop);
	if (!waits->hot)
		return -ENOMEM;
	r = timer_new(&waits->timer, loop, 0, on_timer, waits);
	if (r >= 0)
		r = timer_new(&waits->next_turn, loop, 1, on_next_turn, waits);
	if (r >= 0)
		r = sd_event_add_defer(loop, &waits->idle, on_idle, waits);
	if (r >= 0)
		r = sd_event_source_set_priority(waits->idle, SD_EVENT_PRIORITY_IDLE);
	if (r >= 0)
		r = sd_event_source_set_enabled(waits->idle, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

void waits_done(struct waits *waits)
{
	waits->timer = sd_event_source_disable_unref(waits->timer);
	waits->next_turn = sd_event_source_disable_unref(waits->next_turn);
	waits->idle = sd_event_source_disable_unref(waits->idle);
	waits->hot = hot_unref(waits->hot);
}

int wait_for_fabric(struct session *session, in_port_t port)
{
	struct waits *waits = session->core->waits;
	struct wait *wait = &session->wait;

	if (wait->request != session->request || wait->for_others) {
		wait->request = session->request;
		wait->until_ms = clock_ms() + waits->max_ms;
	} else if (is_over(session, port)) {
		return 0;
	}
	wait->port = port;
	wait->for_others = false;
	session_wait(session, &waits->sessions);
	rearm(waits);
	return -EINPROGRESS;
}

int wait_for_others(struct session *session)
{
	struct waits *waits = session->core->waits;
	struct wait *wait = &session->wait;

	if (wait->waited_for_others == session->request)
		return 0;
	wait->waited_for_others = session->request;
	/* FOR_OTHERS makes a later wait_for_fabric() set a new deadline. */
	wait->until_ms = clock_ms() + WAIT_FOR_OTHERS_MS;
	wait->for_others = true;
	session_wait(session, &waits->sessions);
	timer_defer(waits->idle);
	rearm(waits);
	return -EINPROGRESS;
}

int wait_for_turn(struct session *session)
{
	struct waits *waits = session->core->waits;
	int r = timer_start(waits->next_turn, 0);

	if (r < 0)
		return r;
	session_wait(session, &waits->in_slices);
	return -EINPROGRESS;
}

void waits_go_on(struct waits *waits, in_port_t port)
{
	resume_if(waits, may_go_on, port);
}

int wait_for_devices(struct session *session, const char *what, struct failure *failure)
{
	int r;

	if (!fabric_is_opening(session->core->fabric))
		return 0;
	r = wait_for_fabric(session, /* port= */ 0);
	if (r != 0)
		return r;
	return failure_set_error(
		failure, STATUS_FABRIC, ETIMEDOUT,
		"cannot %s: the host's RDMA devices are still being opened, or one does not "
		"answer; try again",
		what);
}
