/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/wire/fail.h"
#include "client/lib/wire/wire.h"

void wire_init(struct wire *wire, const struct wire_ops *ops, void *userdata, int call_timeout_ms)
{
	*wire = (struct wire){
		.ops = ops,
		.userdata = userdata,
		.call_timeout_ms = call_timeout_ms,
		.sock = -1,
		.signal = -1,
		.epoll = -1,
	};
	fork_mark_init(&wire->fork_mark);
	pthread_mutex_init(&wire->lock, NULL);
	pthread_cond_init(&wire->cond, NULL);
	TAILQ_INIT(&wire->calls);
}

void wire_done(struct wire *wire)
{
	if (wire->epoll >= 0)
		close(wire->epoll);
	if (wire->signal >= 0)
		close(wire->signal);
	if (wire->sock >= 0)
		close(wire->sock);
	pthread_cond_destroy(&wire->cond);
	pthread_mutex_destroy(&wire->lock);
	fork_mark_done(&wire->fork_mark);
}

/*
 * Makes the epoll instance watch the socket, or not. The socket is added anew and not only modified: if the instance still
 * has it among what was ready before, a modification wakes nobody who waits for the instance in an edge-triggered epoll.
 * If memory runs out, the eventfd makes the program look, and the socket is added later.
 */
static void look_at_socket(struct wire *wire, bool look)
{
	struct epoll_event event = { .events = EPOLLIN };
	int r = epoll_ctl(wire->epoll, look ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, wire->sock, &event);

	wire->unwatched = look && r < 0 && errno != EEXIST;
}

/*
 * Once the program polls: makes the eventfd readable if there is news, else not readable. Called only before the lock
 * is released, so that an event that a thread receives and takes under one lock costs no write to the eventfd.
 */
static void settle_signal(struct wire *wire)
{
	uint64_t count = 1;
	bool waits;

	if (!wire->polled)
		return;
	if (wire->unwatched && wire->n_waiting == 0)
		look_at_socket(wire, true);
	waits = wire->dead || wire->unwatched || wire->ops->has_news(wire->userdata);
	if (waits == wire->signalled)
		return;
	wire->signalled = waits;
	/* This cannot fail: the descriptor does not block, and its counter is 0 or 1. */
	if ((waits ? write(wire->signal, &count, sizeof(count)) :
		     read(wire->signal, &count, sizeof(count))) < 0)
		return;
}

void wire_lock(struct wire *wire)
{
	pthread_mutex_lock(&wire->lock);
}

void wire_unlock(struct wire *wire)
{
	settle_signal(wire);
	pthread_mutex_unlock(&wire->lock);
}

void wire_wait(struct wire *wire)
{
	settle_signal(wire);
	pthread_cond_wait(&wire->cond, &wire->lock);
}

int wire_wait_until(struct wire *wire, int64_t deadline)
{
	struct timespec ts = {
		.tv_sec = deadline / 1000,
		.tv_nsec = deadline % 1000 * 1000000,
	};

	settle_signal(wire);
	return pthread_cond_clockwait(&wire->cond, &wire->lock, CLOCK_MONOTONIC, &ts) == ETIMEDOUT ?
		       -ETIMEDOUT :
		       0;
}

void wire_wake(struct wire *wire)
{
	pthread_cond_broadcast(&wire->cond);
}

/*
 * While calls wait for their replies, their threads read the socket. If one of them receives an event, the eventfd
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
	if (!wire->polled && wire->n_waiting > 0)
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
	shutdown(wire->sock, SHUT_RDWR);
}

void wire_lose(struct wire *wire, int r)
{
	wire_lock(wire);
	wire_die(wire, r);
	wire_wake(wire);
	wire_unlock(wire);
}

int wire_check(struct wire *wire)
{
	if (wire->dead)
		return fail(ECONNRESET, "the connection to the broker is lost: %s",
			    strerror(-wire->dead));
	return 0;
}

int wire_check_process(const struct wire *wire)
{
	if (fork_mark_is_child(&wire->fork_mark))
		return fail(EPERM,
			    "the session belongs to another process: open one in this process");
	return 0;
}
