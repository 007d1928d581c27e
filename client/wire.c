/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/failure.h"
#include "client/wire.h"
#include "proto/packet.h"

#define UNANSWERED_MAX 16 /* calls at a time that the broker answers only on failure */

void wire_init(struct wire *wire, const struct wire_ops *ops, void *userdata, int call_timeout_ms)
{
	*wire = (struct wire){
		.ops = ops,
		.userdata = userdata,
		.pid = getpid(),
		.call_timeout_ms = call_timeout_ms,
		.sock = -1,
		.signal = -1,
		.epoll = -1,
	};
	pthread_mutex_init(&wire->lock, NULL);
	pthread_cond_init(&wire->cond, NULL);
	TAILQ_INIT(&wire->calls);
}

void wire_done(struct wire *wire)
{
	struct call *call;

	while ((call = TAILQ_FIRST(&wire->calls))) {
		TAILQ_REMOVE(&wire->calls, call, link);
		free(call);
	}
	if (wire->epoll >= 0)
		close(wire->epoll);
	if (wire->signal >= 0)
		close(wire->signal);
	if (wire->sock >= 0)
		close(wire->sock);
	pthread_cond_destroy(&wire->cond);
	pthread_mutex_destroy(&wire->lock);
}

/*
 * Called before the lock is released: only then can other threads see the descriptor's state. An event that a
 * thread receives and takes under one lock costs no write to the eventfd.
 */
static void settle_signal(struct wire *wire)
{
	uint64_t count = 1;
	bool waits;

	if (!wire->polled)
		return;
	waits = wire->dead || wire->ops->has_news(wire->userdata);
	if (waits == wire->signalled)
		return;
	wire->signalled = waits;
	/* The descriptor does not block, and its counter is 0 or 1. */
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

static int wait_until(struct wire *wire, int64_t deadline)
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

int wire_check_process(const struct wire *wire)
{
	if (getpid() != wire->pid)
		return fail(EPERM, "the session belongs to the process that opened it");
	return 0;
}

int wire_check(struct wire *wire)
{
	if (wire->dead)
		return fail(ECONNRESET, "the connection to the broker is lost: %s",
			    strerror(-wire->dead));
	return 0;
}

/* Receiving */

static void die(struct wire *wire, int r)
{
	if (wire->dead)
		return;
	/* Makes the session's descriptor readable, so that the program takes RDMABROKER_EVENT_LOST. */
	wire->dead = r;
	/* Nothing is read any more: make the broker end the session and its connections now. */
	shutdown(wire->sock, SHUT_RDWR);
}

void wire_lose(struct wire *wire, int r)
{
	wire_lock(wire);
	die(wire, r);
	wire_wake(wire);
	wire_unlock(wire);
}

static void add_call(struct wire *wire, struct call *call)
{
	TAILQ_INSERT_TAIL(&wire->calls, call, link);
	call->listed = true;
	wire->n_unanswered += call->unanswered;
}

static void remove_call(struct wire *wire, struct call *call)
{
	TAILQ_REMOVE(&wire->calls, call, link);
	call->listed = false;
	wire->n_unanswered -= call->unanswered;
}

/* The broker processes requests in order: unanswered calls that were sent before ORDER have succeeded. */
static void settle_before(struct wire *wire, uint64_t order)
{
	struct call *call, *next;

	for (call = TAILQ_FIRST(&wire->calls); call && wire->n_unanswered > 0; call = next) {
		next = TAILQ_NEXT(call, link);
		if (!call->unanswered || !call->order || call->order >= order)
			continue;
		remove_call(wire, call);
		if (call->waited)
			continue;
		wire->ops->on_outcome(wire->userdata, call, NULL);
		free(call);
	}
}

void wire_handle_is_free(struct wire *wire, uint32_t handle)
{
	struct call *call;

	TAILQ_FOREACH(call, &wire->calls, link)
		if (call->unanswered && call->destroys && call->handle == handle) {
			settle_before(wire, call->order + 1);
			return;
		}
}

/* FRAME is handed over. */
static int on_reply(struct wire *wire, struct call *call, Rdmabroker__Frame *frame)
{
	int r;

	settle_before(wire, call->order);
	remove_call(wire, call);
	r = wire->ops->on_outcome(wire->userdata, call, frame->reply);
	if (call->waited) {
		call->frame = frame;
		call->done = true;
	} else {
		frame_free(frame);
		free(call);
	}
	return r;
}

static void on_packet(struct wire *wire, const uint8_t *data, size_t len, int *fd)
{
	Rdmabroker__Frame *frame = frame_unpack(data, len);
	struct call *call;
	int r;

	if (!frame) {
		die(wire, -EBADMSG);
		return;
	}
	switch (frame->body_case) {
	case RDMABROKER__FRAME__BODY_EVENT:
		r = wire->ops->on_event(wire->userdata, frame);
		if (r < 0)
			die(wire, r);
		return;
	case RDMABROKER__FRAME__BODY_NOTICE:
		wire->ops->on_notice(wire->userdata, frame);
		return;
	case RDMABROKER__FRAME__BODY_REPLY:
		TAILQ_FOREACH(call, &wire->calls, link)
			/* Serial 0: the broker rejects the whole session; this answers the oldest call. */
			if (call->serial == frame->reply->serial || frame->reply->serial == 0)
				break;
		if (call) {
			if (call->ret_fd) {
				*call->ret_fd = *fd;
				*fd = -1;
			}
			r = on_reply(wire, call, frame);
			if (r < 0)
				die(wire, r);
			return;
		}
		break;
	default:
		break;
	}
	frame_free(frame);
}

/* Receives one packet. False: there is none now, or the session is dead. */
static bool receive(struct wire *wire)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS] = { -1 };
	size_t n_fds = 0;
	ssize_t n;

	if (wire->dead)
		return false;
	n = packet_recv(wire->sock, buf, fds, PACKET_MAX_FDS, &n_fds);
	/* ECONNRESET is returned once, ahead of packets that are still queued; these may have the reason. */
	if (n == -ECONNRESET)
		n = packet_recv(wire->sock, buf, fds, PACKET_MAX_FDS, &n_fds);
	if (n == -EAGAIN)
		return false;
	if (n_fds == 0)
		fds[0] = -1;
	if (n < 0)
		die(wire, (int)n);
	else
		on_packet(wire, buf, (size_t)n, &fds[0]);
	for (size_t i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return n >= 0;
}

bool wire_is_past(int64_t deadline, bool looked)
{
	int64_t now = now_ms();

	return now >= deadline && (looked || now >= deadline + GRACE_MS);
}

static void receive_all(struct wire *wire)
{
	int64_t begin = now_ms();

	while (receive(wire) && !wire_is_past(begin, /* looked= */ false))
		;
}

/* One thread at a time polls and receives, for all threads; the others wait until it has received something. */
static int pump(struct wire *wire, short events, int64_t deadline)
{
	struct pollfd p = { .fd = wire->sock, .events = events };
	bool reader = true;
	int64_t left;
	int n, r;

	if (wire->reading) {
		if (!(events & POLLOUT))
			return wait_until(wire, deadline);
		/* Every thread may wait for room in the socket, not only the reader. */
		p.events = POLLOUT;
		reader = false;
	}

	left = deadline - now_ms();
	wire->reading |= reader;
	wire_unlock(wire);
	n = poll(&p, 1, left > 0 ? (int)left : 0);
	r = n == 0 || (n < 0 && errno != EINTR) ? -ETIMEDOUT : 0;
	wire_lock(wire);
	if (!reader)
		return r;
	wire->reading = false;
	/* After a poll that failed REVENTS is not valid: try to receive. */
	if ((n < 0 || (p.revents & ~POLLOUT)) && receive(wire))
		r = 0;
	wire_wake(wire);
	return r;
}

int wire_pump(struct wire *wire, int64_t deadline)
{
	int r = wire_check(wire);

	return r < 0 ? r : pump(wire, POLLIN, deadline);
}

void wire_drain(struct wire *wire)
{
	/* Another thread that polls without the lock does no harm: it receives what is left. */
	receive_all(wire);
	wire_wake(wire);
}

/* Sending */

static int pack_and_send(struct wire *wire, struct call *call, Rdmabroker__Request *request,
			 int64_t deadline)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	uint8_t buf[PACKET_MAX];
	size_t len;
	int r;

	if (++wire->serial == 0)
		wire->serial = 1;
	request->serial = call->serial = wire->serial;
	request->quiet = call->unanswered;
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	if (rdmabroker__frame__get_packed_size(&frame) > sizeof(buf))
		return fail(EMSGSIZE, "%s: the request is too long", call->name);
	len = rdmabroker__frame__pack(&frame, buf);

	for (;;) {
		r = packet_send(wire->sock, buf, len, call->send_fd, call->send_fd != NULL);
		if (r != -EAGAIN)
			break;
		if (deadline == 0)
			return fail(EAGAIN, "%s: the socket is full", call->name);
		if (now_ms() >= deadline)
			return fail(ETIMEDOUT, "%s: the broker takes no requests", call->name);
		/* Read meanwhile: the daemon may wait for us to take its replies. */
		pump(wire, POLLIN | POLLOUT, deadline);
		r = wire_check(wire);
		if (r < 0)
			return r;
	}
	if (r == -ECONNRESET) {
		/* The last packets in the socket may have the reason. */
		receive_all(wire);
		die(wire, r);
		return wire_check(wire);
	}
	if (r < 0)
		return fail(-r, "%s: sending failed: %s", call->name, strerror(-r));
	call->order = ++wire->n_sent;
	return 0;
}

static void look_at_socket(struct wire *wire, bool look)
{
	struct epoll_event event = { .events = look ? EPOLLIN : 0 };

	epoll_ctl(wire->epoll, EPOLL_CTL_MOD, wire->sock, &event);
}

/*
 * While a call waits for its answer, its thread reads the socket, and makes the session's descriptor readable by the
 * eventfd if it receives an event. Meanwhile the socket itself is not polled: its answers would wake a program that
 * polls the descriptor, and that would find no event.
 */
static void count_waiting(struct wire *wire, int n)
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

int wire_exchange(struct wire *wire, struct call *call, Rdmabroker__Request *request,
		  int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	int r = wire_check(wire);

	if (r < 0)
		return r;
	call->waited = true;
	add_call(wire, call);
	count_waiting(wire, 1);
	r = pack_and_send(wire, call, request, deadline);
	while (r == 0 && !call->done) {
		r = wire_check(wire);
		if (r == 0 && now_ms() >= deadline)
			r = fail(ETIMEDOUT, "%s: the broker did not answer in time", call->name);
		if (r == 0)
			pump(wire, POLLIN, deadline);
	}
	count_waiting(wire, -1);
	if (call->listed)
		remove_call(wire, call);
	return call->done ? 0 : r;
}

/* FRAME has a failure; it is freed. */
static int fail_by_reply(Rdmabroker__Frame *frame)
{
	const Rdmabroker__Failure *failure = frame->reply->failure;
	int r = fail_remote(failure->error, failure->text, failure->rule, failure->retry_after_ms);

	frame_free(frame);
	return r;
}

int wire_take_reply(struct call *call, Rdmabroker__Frame **ret)
{
	if (call->frame->reply->failure)
		return fail_by_reply(call->frame);
	if (ret)
		*ret = call->frame;
	else
		frame_free(call->frame);
	return 0;
}

int wire_begin(struct wire *wire, struct call *call, Rdmabroker__Request *request, int timeout_ms)
{
	int r = wire_check(wire);

	if (r < 0)
		return r;
	call->waited = call->unanswered = true;
	add_call(wire, call);
	r = pack_and_send(wire, call, request, now_ms() + timeout_ms);
	if (r < 0)
		wire_end(wire, call);
	return r;
}

int wire_end(struct wire *wire, struct call *call)
{
	if (call->listed)
		remove_call(wire, call);
	if (!call->done)
		return 0;
	call->done = false;
	call->refused = call->frame->reply->failure != NULL;
	if (call->refused)
		return fail_by_reply(call->frame);
	frame_free(call->frame);
	return 0;
}

int wire_send(struct wire *wire, const struct call *like, Rdmabroker__Request *request,
	      int timeout_ms)
{
	struct call *call = malloc(sizeof(*call));
	int r;

	if (!call)
		return fail(ENOMEM, "%s: out of memory", like->name);
	*call = *like;
	r = wire_check(wire);
	if (r == 0) {
		/* Request an answer now and then, for it also tells that the calls before have succeeded. */
		call->unanswered = (call->quiet || call->silent) && !call->answered &&
				   wire->n_unanswered < UNANSWERED_MAX;
		add_call(wire, call);
		r = pack_and_send(wire, call, request, timeout_ms ? now_ms() + timeout_ms : 0);
		if (r < 0)
			remove_call(wire, call);
	}
	if (r < 0)
		free(call);
	return r;
}

/* The forms that lock */

int wire_call_like(struct wire *wire, struct call *call, Rdmabroker__Request *request,
		   int timeout_ms, Rdmabroker__Frame **ret)
{
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	wire_lock(wire);
	r = wire_exchange(wire, call, request, timeout_ms);
	wire_unlock(wire);
	return r < 0 ? r : wire_take_reply(call, ret);
}

int wire_call(struct wire *wire, const char *name, Rdmabroker__Request *request, int timeout_ms,
	      Rdmabroker__Frame **ret)
{
	struct call call = { .name = name };

	return wire_call_like(wire, &call, request, timeout_ms, ret);
}

int wire_post(struct wire *wire, const struct call *like, Rdmabroker__Request *request,
	      int timeout_ms)
{
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	wire_lock(wire);
	r = wire_send(wire, like, request, timeout_ms);
	wire_unlock(wire);
	return r;
}

int wire_call_within(struct wire *wire, const char *name, Rdmabroker__Request *request,
		     Rdmabroker__Reply__ResultCase result, int timeout_ms, Rdmabroker__Frame **ret)
{
	int r = wire_call(wire, name, request, timeout_ms, ret);

	if (r == 0 && (*ret)->reply->result_case != result) {
		frame_free(*ret);
		r = fail(EPROTO, "%s: the broker's answer is of another kind", name);
	}
	return r;
}

int wire_call_for(struct wire *wire, const char *name, Rdmabroker__Request *request,
		  Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret)
{
	return wire_call_within(wire, name, request, result, wire->call_timeout_ms, ret);
}
