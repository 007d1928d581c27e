/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/wire/fail.h"
#include "client/lib/wire/pending.h"
#include "client/lib/wire/wire.h"
#include "proto/kernelepoll.h"

void wire_init(struct wire *wire, const struct wire_ops *ops, struct rdmabroker *session,
	       int call_timeout_ms, uint8_t *packet)
{
	*wire = (struct wire){
		.ops = ops,
		.session = session,
		.call_timeout_ms = call_timeout_ms,
		.replies = wire,
		.lock = &wire->own_lock,
		.sock = OWNFD_NONE,
		.bell = OWNFD_NONE,
		.epoll = -1,
		.packet = packet,
	};
	fork_mark_init(&wire->fork_mark);
	pthread_mutex_init(&wire->own_lock, NULL);
	pthread_cond_init(&wire->cond, NULL);
	TAILQ_INIT(&wire->calls);
}

void wire_be_direct(struct wire *wire, struct wire *replies)
{
	wire->replies = replies;
	wire->lock = replies->lock;
}

void wire_done(struct wire *wire)
{
	/* If the socket is not ours any more, the epoll instance may not be, either, and it cannot be told. */
	if (wire_is_direct(wire)) {
		if (!wire_is_in_child(wire))
			wire_set_epoll(wire, -1);
	} else if (wire->epoll >= 0 && ownfd_is_ours(&wire->sock)) {
		close(wire->epoll);
	}
	ownfd_close(&wire->bell);
	ownfd_close(&wire->sock);
	pthread_cond_destroy(&wire->cond);
	pthread_mutex_destroy(&wire->own_lock);
	fork_mark_done(&wire->fork_mark);
}

int wire_make_bell(struct wire *wire)
{
	int pair[2];

	if (ownfd_is_ours(&wire->bell))
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	wire->bell = ownfd_of(above_stdio(pair[0]));
	close(pair[1]);
	return wire->bell.fd < 0 ? -EMFILE : 0;
}

static int add_to_epoll(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return kernel_epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int wire_set_epoll(struct wire *wire, int epoll)
{
	struct epoll_event event = { 0 };
	int r;

	if (!ownfd_is_ours(&wire->sock))
		return -EBADF;
	if (wire_is_direct(wire) && wire->epoll >= 0) {
		kernel_epoll_ctl(wire->epoll, EPOLL_CTL_DEL, wire->sock.fd, &event);
		if (wire->rings && ownfd_is_ours(&wire->replies->bell))
			kernel_epoll_ctl(wire->epoll, EPOLL_CTL_DEL, wire->replies->bell.fd,
					 &event);
		wire->epoll = -1;
		wire->rings = false;
	}
	if (epoll < 0)
		return 0;
	/* The broker does not know how to be direct: the program's instance contains that of the library. */
	if (!wire_is_direct(wire))
		return add_to_epoll(epoll, wire->epoll);
	r = wire_make_bell(wire->replies);
	if (r == 0)
		r = add_to_epoll(epoll, wire->sock.fd);
	if (r == 0)
		wire->epoll = epoll;
	return r;
}

/*
 * Makes the epoll instance watch the socket, or not. The socket is added anew and not only modified: if the instance still
 * has it among what was ready before, a modification wakes nobody who waits for the instance in an edge-triggered epoll.
 * If memory runs out, the bell makes the program look, and the socket is added later.
 */
static void look_at_socket(struct wire *wire, bool look)
{
	struct epoll_event event = { .events = EPOLLIN };
	int r;

	if (!ownfd_is_ours(&wire->sock))
		return;
	r = kernel_epoll_ctl(wire->epoll, look ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, wire->sock.fd,
			     &event);
	wire->unwatched = look && r < 0 && errno != EEXIST;
}

/*
 * Makes the epoll instance readable if there is news, by the bell. Called only before the lock is
 * released, so that an event that a thread receives and takes under one lock costs no system call.
 */
static void settle_bell(struct wire *wire)
{
	struct epoll_event event = { .events = EPOLLIN };
	const struct ownfd *bell = &wire->replies->bell;
	bool waits;

	if (wire->unwatched && wire->n_waiting == 0)
		look_at_socket(wire, true);
	waits = wire->dead || wire->unwatched || wire->ops->has_news(wire->session);
	if (waits == wire->rings || !ownfd_is_ours(bell) || !ownfd_is_ours(&wire->sock))
		return;
	/* If memory runs out, the next call tries again. */
	if (kernel_epoll_ctl(wire->epoll, waits ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, bell->fd,
			     &event) == 0)
		wire->rings = waits;
}

static void settle(struct wire *wire)
{
	if (!wire->polled)
		return;
	if (wire_is_direct(wire))
		wire->ops->settle(wire->session);
	if (wire->epoll >= 0)
		settle_bell(wire);
}

void wire_lock(struct wire *wire)
{
	pthread_mutex_lock(wire->lock);
}

void wire_unlock(struct wire *wire)
{
	settle(wire);
	pthread_mutex_unlock(wire->lock);
}

void wire_wait(struct wire *wire)
{
	settle(wire);
	pthread_cond_wait(&wire->cond, wire->lock);
}

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

void wire_wait_cancellable(struct wire *wire, int cancel_state)
{
	int ignored;

	settle(wire);
	pthread_cleanup_push(unlock, wire->lock);
	pthread_setcancelstate(cancel_state, &ignored);
	pthread_cond_wait(&wire->cond, wire->lock);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
	pthread_cleanup_pop(0);
}

static int wait_until(struct wire *wire, pthread_cond_t *cond, int64_t deadline)
{
	struct timespec ts = {
		.tv_sec = deadline / 1000,
		.tv_nsec = deadline % 1000 * 1000000,
	};

	settle(wire);
	return -pthread_cond_clockwait(cond, wire->lock, CLOCK_MONOTONIC, &ts);
}

int wire_wait_until(struct wire *wire, int64_t deadline)
{
	return wait_until(wire, &wire->cond, deadline);
}

void wire_wake(struct wire *wire)
{
	struct call *call;

	pthread_cond_broadcast(&wire->cond);
	if (wire->n_waiting == 0 || (wire->reading && !wire->dead))
		return;
	TAILQ_FOREACH(call, &wire->calls, link) {
		if (!call->cond)
			continue;
		pthread_cond_signal(call->cond);
		if (!wire->dead)
			break;
	}
}

int wire_wait_for_call(struct wire *wire, struct call *call, int64_t deadline)
{
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	int r;

	call->cond = &cond;
	r = wait_until(wire, &cond, deadline);
	call->cond = NULL;
	pthread_cond_destroy(&cond);
	return r;
}

/*
 * While calls wait for their replies, their threads read the socket. If one of them receives an event, the bell
 * makes the session's descriptor readable. Meanwhile the epoll instance does not watch the socket. Otherwise each
 * reply would wake a program that polls the descriptor, and the program would find no event.
 */
void wire_count_waiting(struct wire *wire, int n)
{
	bool was = wire->n_waiting > 0, is;

	wire->n_waiting += (unsigned)n;
	is = wire->n_waiting > 0;
	if (was != is && wire->polled)
		look_at_socket(wire, !is);
}

void wire_be_polled(struct wire *wire)
{
	if (!wire->polled && wire->n_waiting > 0 && !wire_is_direct(wire))
		look_at_socket(wire, false);
	wire->polled = true;
}

void wire_die(struct wire *wire, int r)
{
	if (wire->dead)
		return;
	/* Makes the session's descriptor readable, so that the program takes RDMABROKER_EVENT_LOST. */
	wire->dead = r;
	/* The socket is not read any more: make the broker end the session and its connections now. */
	if (ownfd_is_ours(&wire->sock))
		shutdown(wire->sock.fd, SHUT_RDWR);
}

int wire_check(struct wire *wire)
{
	if (wire->dead == -EBADF)
		return fail(ECONNRESET, "the program has closed the socket of its session");
	if (wire->dead)
		return fail(ECONNRESET, "the connection to the broker is lost: %s",
			    strerror(-wire->dead));
	return 0;
}

int wire_check_socket(struct wire *wire)
{
	return wire->trusts ? wire_check(wire) : wire_check_own(wire);
}

int wire_check_own(struct wire *wire)
{
	if (!wire->dead && !ownfd_is_ours(&wire->sock)) {
		wire_die(wire, -EBADF);
		wire_wake(wire);
	}
	return wire_check(wire);
}

int wire_check_process(const struct wire *wire)
{
	if (wire_is_in_child(wire))
		return fail(EPERM,
			    "the session belongs to another process: open one in this process");
	return 0;
}
