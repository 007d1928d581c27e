/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/internal.h"
#include "proto/packet.h"

#define UNANSWERED_MAX 16 /* calls at a time that the broker answers only on failure */

int wire_check_process(const struct rdmabroker *session)
{
	if (getpid() != session->pid)
		return fail(EPERM, "the session belongs to the process that opened it");
	return 0;
}

int wire_check(struct rdmabroker *session)
{
	if (session->dead)
		return fail(ECONNRESET, "the connection to the broker is lost: %s",
			    strerror(-session->dead));
	return 0;
}

/* Receiving */

static void die(struct rdmabroker *session, int r)
{
	if (session->dead)
		return;
	/* Makes the session's descriptor readable, so that the program takes RDMABROKER_EVENT_LOST. */
	session->dead = r;
	/* Nothing is read any more: make the broker end the session and its connections now. */
	shutdown(session->sock, SHUT_RDWR);
}

void wire_lose(struct rdmabroker *session, int r)
{
	pthread_mutex_lock(&session->lock);
	die(session, r);
	pthread_cond_broadcast(&session->cond);
	session_unlock(session);
}

static void add_call(struct rdmabroker *session, struct call *call)
{
	TAILQ_INSERT_TAIL(&session->calls, call, link);
	call->listed = true;
	session->n_unanswered += call->unanswered;
}

static void remove_call(struct rdmabroker *session, struct call *call)
{
	TAILQ_REMOVE(&session->calls, call, link);
	call->listed = false;
	session->n_unanswered -= call->unanswered;
}

/* The broker processes requests in order: unanswered calls that were sent before ORDER have succeeded. */
static void settle_before(struct rdmabroker *session, uint64_t order)
{
	struct call *call, *next;

	for (call = TAILQ_FIRST(&session->calls); call && session->n_unanswered > 0; call = next) {
		next = TAILQ_NEXT(call, link);
		if (!call->unanswered || !call->order || call->order >= order)
			continue;
		remove_call(session, call);
		if (!call->waited)
			session_on_success(session, call);
	}
}

void wire_handle_is_free(struct rdmabroker *session, uint32_t handle)
{
	struct call *call;

	TAILQ_FOREACH(call, &session->calls, link)
		if (call->unanswered && call->destroys && call->handle == handle) {
			settle_before(session, call->order + 1);
			return;
		}
}

static void on_packet(struct rdmabroker *session, const uint8_t *data, size_t len, int *fd)
{
	Rdmabroker__Frame *frame = frame_unpack(data, len);
	struct call *call;
	int r;

	if (!frame) {
		die(session, -EBADMSG);
		return;
	}
	switch (frame->body_case) {
	case RDMABROKER__FRAME__BODY_EVENT:
		r = session_on_event(session, frame);
		if (r < 0)
			die(session, r);
		return;
	case RDMABROKER__FRAME__BODY_NOTICE:
		watch_on_notice(session, frame);
		return;
	case RDMABROKER__FRAME__BODY_REPLY:
		TAILQ_FOREACH(call, &session->calls, link)
			/* Serial 0: the broker rejects the whole session; this answers the oldest call. */
			if (call->serial == frame->reply->serial || frame->reply->serial == 0)
				break;
		if (call) {
			settle_before(session, call->order);
			remove_call(session, call);
			if (call->ret_fd) {
				*call->ret_fd = *fd;
				*fd = -1;
			}
			r = session_on_reply(session, call, frame);
			if (r < 0)
				die(session, r);
			return;
		}
		break;
	default:
		break;
	}
	frame_free(frame);
}

/* Receives one packet. False: there is none now, or the session is dead. */
static bool receive(struct rdmabroker *session)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS] = { -1 };
	size_t n_fds = 0;
	ssize_t n;

	if (session->dead)
		return false;
	n = packet_recv(session->sock, buf, fds, PACKET_MAX_FDS, &n_fds);
	/* ECONNRESET is returned once, ahead of packets that are still queued; these may have the reason. */
	if (n == -ECONNRESET)
		n = packet_recv(session->sock, buf, fds, PACKET_MAX_FDS, &n_fds);
	if (n == -EAGAIN)
		return false;
	if (n_fds == 0)
		fds[0] = -1;
	if (n < 0)
		die(session, (int)n);
	else
		on_packet(session, buf, (size_t)n, &fds[0]);
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

static void receive_all(struct rdmabroker *session)
{
	int64_t begin = now_ms();

	while (receive(session) && !wire_is_past(begin, /* looked= */ false))
		;
}

static int wait_reader(struct rdmabroker *session, int64_t deadline)
{
	struct timespec ts = {
		.tv_sec = deadline / 1000,
		.tv_nsec = deadline % 1000 * 1000000,
	};

	return session_wait_until(session, &ts) == -ETIMEDOUT ? -ETIMEDOUT : 0;
}

/* One thread at a time polls and receives, for all threads; the others wait until it has received something. */
static int pump(struct rdmabroker *session, short events, int64_t deadline)
{
	struct pollfd p = { .fd = session->sock, .events = events };
	bool reader = true;
	int64_t left;
	int n, r;

	if (session->reading) {
		if (!(events & POLLOUT))
			return wait_reader(session, deadline);
		/* Every thread may wait for room in the socket, not only the reader. */
		p.events = POLLOUT;
		reader = false;
	}

	left = deadline - now_ms();
	session->reading |= reader;
	session_unlock(session);
	n = poll(&p, 1, left > 0 ? (int)left : 0);
	r = n == 0 || (n < 0 && errno != EINTR) ? -ETIMEDOUT : 0;
	pthread_mutex_lock(&session->lock);
	if (!reader)
		return r;
	session->reading = false;
	/* After a poll that failed REVENTS is not valid: try to receive. */
	if ((n < 0 || (p.revents & ~POLLOUT)) && receive(session))
		r = 0;
	pthread_cond_broadcast(&session->cond);
	return r;
}

int wire_pump(struct rdmabroker *session, int64_t deadline)
{
	int r = wire_check(session);

	return r < 0 ? r : pump(session, POLLIN, deadline);
}

void wire_drain(struct rdmabroker *session)
{
	/* Another thread that polls without the lock does no harm: it receives what is left. */
	receive_all(session);
	pthread_cond_broadcast(&session->cond);
}

/* Sending */

static int pack_and_send(struct rdmabroker *session, struct call *call,
			 Rdmabroker__Request *request, int64_t deadline)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	uint8_t buf[PACKET_MAX];
	size_t len;
	int r;

	if (++session->serial == 0)
		session->serial = 1;
	request->serial = call->serial = session->serial;
	request->quiet = call->unanswered;
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	if (rdmabroker__frame__get_packed_size(&frame) > sizeof(buf))
		return fail(EMSGSIZE, "%s: the request is too long", call->name);
	len = rdmabroker__frame__pack(&frame, buf);

	for (;;) {
		r = packet_send(session->sock, buf, len, call->send_fd, call->send_fd != NULL);
		if (r != -EAGAIN)
			break;
		if (deadline == 0)
			return fail(EAGAIN, "%s: the socket is full", call->name);
		if (now_ms() >= deadline)
			return fail(ETIMEDOUT, "%s: the broker takes no requests", call->name);
		/* Read meanwhile: the daemon may wait for us to take its replies. */
		pump(session, POLLIN | POLLOUT, deadline);
		r = wire_check(session);
		if (r < 0)
			return r;
	}
	if (r == -ECONNRESET) {
		/* The last packets in the socket may have the reason. */
		receive_all(session);
		die(session, r);
		return wire_check(session);
	}
	if (r < 0)
		return fail(-r, "%s: sending failed: %s", call->name, strerror(-r));
	call->order = ++session->n_sent;
	return 0;
}

/* The first request about an id also creates it in the broker. */
static int send_request(struct rdmabroker *session, struct call *call, Rdmabroker__Request *request,
			int64_t deadline)
{
	struct rdmabroker_id *id = ids_find_living(session, call->handle);
	Rdmabroker__CreateId first = RDMABROKER__CREATE_ID__INIT;
	int r;

	if (!id || !id->is_new)
		return pack_and_send(session, call, request, deadline);
	first.id = id->handle;
	first.port_space = id->ps;
	request->first = &first;
	call->creates = true;
	id->is_new = false;
	r = pack_and_send(session, call, request, deadline);
	if (r < 0)
		id->is_new = true;
	return r;
}

static void look_at_socket(struct rdmabroker *session, bool look)
{
	struct epoll_event event = { .events = look ? EPOLLIN : 0 };

	epoll_ctl(session->epoll, EPOLL_CTL_MOD, session->sock, &event);
}

/*
 * While a call waits for its answer, its thread reads the socket, and makes the session's descriptor readable by the
 * eventfd if it receives an event. Meanwhile the socket itself is not polled: its answers would wake a program that
 * polls the descriptor, and that would find no event.
 */
static void count_waiting(struct rdmabroker *session, int n)
{
	bool was = session->n_waiting > 0, is;

	session->n_waiting += (unsigned)n;
	is = session->n_waiting > 0;
	if (was != is && session->polled)
		look_at_socket(session, !is);
}

void wire_be_polled(struct rdmabroker *session)
{
	if (!session->polled && session->n_waiting > 0)
		look_at_socket(session, false);
	session->polled = true;
}

static int call_locked(struct rdmabroker *session, struct call *call, Rdmabroker__Request *request,
		       int64_t deadline)
{
	int r = wire_check(session);

	if (r < 0)
		return r;
	add_call(session, call);
	count_waiting(session, 1);
	r = send_request(session, call, request, deadline);
	while (r == 0 && !call->done) {
		r = wire_check(session);
		if (r == 0 && now_ms() >= deadline)
			r = fail(ETIMEDOUT, "%s: the broker did not answer in time", call->name);
		if (r == 0)
			pump(session, POLLIN, deadline);
	}
	count_waiting(session, -1);
	if (call->listed)
		remove_call(session, call);
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

int wire_call_like(struct rdmabroker *session, struct call *call, Rdmabroker__Request *request,
		   int timeout_ms, Rdmabroker__Frame **ret)
{
	int r = wire_check_process(session);

	if (r < 0)
		return r;
	call->waited = true;
	pthread_mutex_lock(&session->lock);
	r = call_locked(session, call, request, now_ms() + timeout_ms);
	session_unlock(session);
	if (r < 0)
		return r;
	if (call->frame->reply->failure)
		return fail_by_reply(call->frame);
	if (ret)
		*ret = call->frame;
	else
		frame_free(call->frame);
	return 0;
}

int wire_begin(struct rdmabroker *session, struct call *call, const char *name, uint32_t handle,
	       Rdmabroker__Request *request, int timeout_ms)
{
	int r = wire_check_process(session);

	if (r < 0)
		return r;
	*call = (struct call){ .name = name, .handle = handle, .waited = true, .unanswered = true };
	pthread_mutex_lock(&session->lock);
	r = wire_check(session);
	if (r == 0) {
		add_call(session, call);
		r = send_request(session, call, request, now_ms() + timeout_ms);
		if (r < 0)
			wire_end(session, call);
	}
	session_unlock(session);
	return r;
}

int wire_end(struct rdmabroker *session, struct call *call)
{
	if (call->listed)
		remove_call(session, call);
	if (!call->done)
		return 0;
	call->done = false;
	call->refused = call->frame->reply->failure != NULL;
	if (call->refused)
		return fail_by_reply(call->frame);
	frame_free(call->frame);
	return 0;
}

int wire_call(struct rdmabroker *session, const char *name, uint32_t handle,
	      Rdmabroker__Request *request, int timeout_ms, Rdmabroker__Frame **ret)
{
	struct call call = { .name = name, .handle = handle };

	return wire_call_like(session, &call, request, timeout_ms, ret);
}

int wire_post(struct rdmabroker *session, const struct call *like, Rdmabroker__Request *request,
	      int timeout_ms)
{
	struct call *call;
	int r = wire_check_process(session);

	if (r < 0)
		return r;
	call = malloc(sizeof(*call));
	if (!call)
		return fail(ENOMEM, "%s: out of memory", like->name);
	*call = *like;

	pthread_mutex_lock(&session->lock);
	r = wire_check(session);
	if (r == 0) {
		/* Request an answer now and then, for it also tells that the calls before have succeeded. */
		call->unanswered = (call->quiet || call->silent) && !call->answered &&
				   session->n_unanswered < UNANSWERED_MAX;
		add_call(session, call);
		r = send_request(session, call, request, timeout_ms ? now_ms() + timeout_ms : 0);
		if (r < 0)
			remove_call(session, call);
	}
	session_unlock(session);
	if (r < 0)
		free(call);
	return r;
}

int wire_do(struct rdmabroker *session, const char *name, uint32_t handle,
	    Rdmabroker__Request *request, bool quiet, Rdmabroker__Frame **ret)
{
	struct call like = {
		.name = name,
		.handle = handle,
		.quiet = quiet,
		.failure_type = RDMABROKER_EVENT_DONE,
	};

	if (session->flags & RDMABROKER_NONBLOCK)
		return wire_post(session, &like, request, /* timeout_ms= */ 0);
	return wire_call(session, name, handle, request, session->call_timeout_ms, ret);
}

int wire_call_within(struct rdmabroker *session, const char *name, Rdmabroker__Request *request,
		     Rdmabroker__Reply__ResultCase result, int timeout_ms, Rdmabroker__Frame **ret)
{
	int r = wire_call(session, name, 0, request, timeout_ms, ret);

	if (r == 0 && (*ret)->reply->result_case != result) {
		frame_free(*ret);
		r = fail(EPROTO, "%s: the broker's answer is of another kind", name);
	}
	return r;
}

int wire_call_for(struct rdmabroker *session, const char *name, Rdmabroker__Request *request,
		  Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret)
{
	return wire_call_within(session, name, request, result, session->call_timeout_ms, ret);
}
