/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "client/lib/event/blocking.h"
#include "client/lib/event/lifetime.h"
#include "client/lib/event/queue.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/sessionparts.h"

void blocking_prepare(struct rdmabroker *session)
{
	const struct queue *queue = session->queue;
	struct wire *wire = &session->wire;

	if (!wire->woken || wire->reading || wire->dead)
		return;
	while (wire->woken && queue_count_free(queue) == 1 && pump_try(wire))
		;
	wire->ahead = wire->woken && queue_count_free(queue) == 1;
}

/*
 * If events are left, has the socket made readable, unless the bell does (wire.h). If none are left, and the packet that makes it readable is in the
 * socket, receives it. A request that the socket has no room for is made again later: then the broker has not read what
 * the program has sent, and will.
 */
void blocking_settle(struct rdmabroker *session)
{
	REQUEST(request, m, Wake, WAKE, wake);
	struct wire *wire = &session->wire;
	const struct queue *queue = session->queue;

	if (wire->dead)
		return;
	if (queue_count_free(queue) > 0 && !wire->woken && (wire->epoll < 0 || wire->reading) &&
	    (wire->trusts || ownfd_is_ours(&wire->sock)))
		wire->woken = call_tell(wire, &request) == 0;
	while (wire->woken && !wire->ahead && queue->n_events == 0 && !wire->reading &&
	       pump_try(wire))
		;
}

static bool does_not_block(const struct wire *wire)
{
	return fcntl(wire_get_fd(wire), F_GETFL) & O_NONBLOCK;
}

/* Waits until this thread can take an event, which is then reserved for it, or the session is lost. Lock held. */
static int await_direct(struct rdmabroker *session, int cancel_state)
{
	struct wire *wire = &session->wire;
	struct queue *queue = session->queue;
	int r = 0;

	while (r == 0 && !wire->dead) {
		if (queue_count_free(queue) > 0) {
			blocking_prepare(session);
			queue->n_reserved++;
			return 0;
		}
		r = wire_check_socket(wire);
		if (r == 0 && !wire->reading)
			r = pump_block(wire, cancel_state);
		else if (r == 0 && does_not_block(wire))
			r = -EAGAIN;
		else if (r == 0)
			wire_wait_cancellable(wire, cancel_state);
		lifetime_end_orphans(session);
	}
	return wire->dead ? 0 : r;
}

/*
 * After a signal whose handler has SA_RESTART the kernel restarts a read, but not poll(). The signal is not known here,
 * so poll() is restarted only if all handlers have SA_RESTART.
 */
static bool may_be_restarted(void)
{
	struct sigaction action;

	for (int i = 1; i < NSIG; i++)
		if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
		    action.sa_handler != SIG_IGN && !(action.sa_flags & SA_RESTART))
			return false;
	return true;
}

/* The same for a descriptor that replies can make readable, too. */
static int await_polled(const struct rdmabroker *session, int cancel_state)
{
	struct pollfd p = { .fd = wire_get_fd(&session->wire), .events = POLLIN };
	int timeout = does_not_block(&session->wire) ? 0 : -1, n, ignored;

	pthread_setcancelstate(cancel_state, &ignored);
	do
		n = poll(&p, 1, timeout);
	while (n < 0 && errno == EINTR && may_be_restarted());
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
	return n < 0 ? -errno : n == 0 ? -EAGAIN : 0;
}

static int await_event(struct rdmabroker *session, int cancel_state)
{
	struct wire *wire = &session->wire;
	int r;

	if (!wire_is_direct(wire))
		return await_polled(session, cancel_state);
	wire_lock(wire);
	lifetime_end_orphans(session);
	r = await_direct(session, cancel_state);
	wire_unlock(wire);
	return r;
}

int rdmabroker_await_event(struct rdmabroker *session)
{
	int r = wire_check_process(&session->wire), cancel_state, ignored;

	if (r < 0)
		return r;
	if (session->flags & RDMABROKER_NO_POLL)
		return fail(EINVAL, "await_event: the session was opened with RDMABROKER_NO_POLL");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	r = await_event(session, cancel_state);
	pthread_setcancelstate(cancel_state, &ignored);
	if (r == -EAGAIN || r == -EINTR)
		return fail(-r, "await_event: no event");
	return r < 0 ? fail(-r, "await_event: %s", strerror(-r)) : 0;
}
