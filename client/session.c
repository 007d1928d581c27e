/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/internal.h"
#include "proto/status.h"
#include "proto/version.h"

#define DEFAULT_SOCKET "/run/rdmabroker/rdmabroker.sock"
#define FLAGS ((unsigned)(RDMABROKER_NONBLOCK | RDMABROKER_FORK_SAFE | RDMABROKER_RETRY_BUSY))

static _Thread_local char open_error[512] = "no session was opened yet";

const char *rdmabroker_open_error(void)
{
	return open_error;
}

const char *rdmabroker_version(void)
{
	return RDMABROKER_VERSION;
}

/* Opening */

static int open_fail(int error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int open_fail(int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(open_error, sizeof(open_error), fmt, ap);
	va_end(ap);
	return -error;
}

/* connect() cannot be polled for room in the listener's queue: if that is full, retry until the deadline. */
static int connect_to(struct rdmabroker *session, const char *path, int64_t deadline)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(addr.sun_path))
		return open_fail(ENAMETOOLONG, "the socket's path is too long: %s", path);
	strcpy(addr.sun_path, path);
	session->wire.sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (session->wire.sock < 0)
		return open_fail(errno, "no socket: %s", strerror(errno));
	while (connect(session->wire.sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return open_fail(errno, "no broker answers on %s: %s", path,
					 strerror(errno));
		if (now_ms() >= deadline)
			return open_fail(ETIMEDOUT, "the broker on %s accepts no clients", path);
		poll(NULL, 0, 5);
	}
	return 0;
}

static int make_fds(struct rdmabroker *session)
{
	struct epoll_event event = { .events = EPOLLIN };

	session->wire.signal = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	session->wire.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (session->wire.signal < 0 || session->wire.epoll < 0 ||
	    epoll_ctl(session->wire.epoll, EPOLL_CTL_ADD, session->wire.sock, &event) < 0 ||
	    epoll_ctl(session->wire.epoll, EPOLL_CTL_ADD, session->wire.signal, &event) < 0)
		return open_fail(errno, "no descriptors: %s", strerror(errno));
	return 0;
}

/*
 * Makes the socket by which the broker recognises this process, see HelloResult.proof. -1: it cannot be made. The
 * session is opened nevertheless, and the broker restricts it.
 */
static int make_proof(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t n = strlen(name);
	int sock;

	if (n >= sizeof(addr.sun_path))
		return -1;
	memcpy(addr.sun_path + 1, name, n);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -1;
	n += offsetof(struct sockaddr_un, sun_path) + 1;
	/* Every process can see the name. After shutdown() none can connect and leave packets in the queue. */
	if (bind(sock, (struct sockaddr *)&addr, (socklen_t)n) == 0 &&
	    shutdown(sock, SHUT_RDWR) == 0 && listen(sock, 0) == 0)
		return sock;
	close(sock);
	return -1;
}

/* PROOF: a descriptor to send with it; -1: none. */
static int call_hello(struct rdmabroker *session, int proof, int timeout_ms,
		      Rdmabroker__Frame **ret)
{
	struct call call = { .name = "hello", .send_fd = proof >= 0 ? &proof : NULL };
	Rdmabroker__Hello m = RDMABROKER__HELLO__INIT;
	REQUEST(request, HELLO, hello, &m);
	int r;

	m.version = 1;
	m.features = RDMABROKER__FEATURE__FEATURE_PROOF;
	r = wire_call_like(&session->wire, &call, &request, timeout_ms, ret);
	if (r == 0 && (*ret)->reply->result_case != RDMABROKER__REPLY__RESULT_HELLO) {
		frame_free(*ret);
		return fail(EPROTO, "the broker speaks another version of the protocol");
	}
	return r;
}

static int say_hello(struct rdmabroker *session, int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	struct rdmabroker_failure failure;
	Rdmabroker__Frame *frame;
	uint32_t max_ids;
	int r;

	r = call_hello(session, -1, timeout_ms, &frame);
	if (r == 0 && frame->reply->hello->proof[0]) {
		int proof = make_proof(frame->reply->hello->proof);

		frame_free(frame);
		r = call_hello(session, proof, (int)(deadline - now_ms()), &frame);
		if (proof >= 0)
			close(proof);
	}
	if (r < 0) {
		rdmabroker_get_failure(session, &failure);
		return open_fail(-r, "%s%s%s%s", failure.text, failure.rule ? " (rule " : "",
				 failure.rule ?: "", failure.rule ? ")" : "");
	}
	if (frame->reply->hello->version != 1 || frame->reply->hello->proof[0]) {
		r = open_fail(EPROTO, "the broker speaks another version of the protocol");
	} else {
		max_ids = frame->reply->hello->max_ids;
		session->max_ids = max_ids < IDS_MAX ? max_ids : IDS_MAX;
	}
	frame_free(frame);
	return r;
}

/*
 * Fork safety has to be set up before memory is registered, so before the first device is opened. If only the
 * environment asks for it, a failure is not reported here: libibverbs warns of that itself.
 */
static bool want_fork_safe(const struct rdmabroker_options *options)
{
	return (options && (options->flags & RDMABROKER_FORK_SAFE)) || getenv("RDMAV_FORK_SAFE") ||
	       getenv("IBV_FORK_SAFE");
}

int rdmabroker_get_fork_status(void)
{
	return ibv_is_fork_initialized();
}

int rdmabroker_open(struct rdmabroker **ret, const struct rdmabroker_options *options)
{
	const char *path = options && options->socket ? options->socket :
							secure_getenv("RDMABROKER_SOCKET");
	unsigned unknown = options ? options->flags & ~FLAGS : 0;
	struct rdmabroker *session;
	int timeout_ms, r;

	if (options && options->size < sizeof(*options))
		return open_fail(EINVAL, "options.size is not sizeof(struct rdmabroker_options)");
	/* The program must notice that this library does not support what it asks for. */
	if (unknown)
		return open_fail(EINVAL, "options.flags has 0x%x, which this library does not know",
				 unknown);
	/* On kernels that copy registered pages at fork (IBV_FORK_UNNEEDED) there is nothing to do. */
	if (want_fork_safe(options) && ibv_is_fork_initialized() == IBV_FORK_DISABLED &&
	    ibv_fork_init() != 0 && options && (options->flags & RDMABROKER_FORK_SAFE))
		return open_fail(EINVAL, "ibv_fork_init() failed: memory is registered already, or "
					 "the kernel does not support it");
	session = calloc(1, sizeof(*session));
	if (!session)
		return open_fail(ENOMEM, "out of memory");
	session->flags = options ? options->flags : 0;
	timeout_ms = options && options->call_timeout_ms > 0 ? options->call_timeout_ms :
							       RDMABROKER_TIMEOUT_DEFAULT;
	wire_init(&session->wire, &session_wire_ops, session, timeout_ms);
	TAILQ_INIT(&session->events);
	TAILQ_INIT(&session->notices);
	LIST_INIT(&session->devices);

	r = connect_to(session, path ?: DEFAULT_SOCKET, now_ms() + timeout_ms);
	if (r == 0)
		r = make_fds(session);
	if (r == 0)
		r = say_hello(session, timeout_ms);
	if (r < 0) {
		rdmabroker_close(session);
		return r;
	}
	*ret = session;
	return 0;
}

static void free_raw(struct raw_event *raw)
{
	if (raw->frame)
		frame_free(raw->frame);
	free(raw->text);
	free(raw);
}

static void free_ids(struct ids *ids)
{
	for (uint32_t i = 0; i < ids->n; i++)
		if (ids->ids[i] && ids->ids[i] != DYING)
			id_free(ids->ids[i]);
	free(ids->ids);
}

struct rdmabroker *rdmabroker_close(struct rdmabroker *session)
{
	struct raw_event *raw;

	if (!session)
		return NULL;
	/* Send nothing more: closing the socket makes the daemon destroy all that the session has. */
	if (!session->wire.dead)
		session->wire.dead = -ESHUTDOWN;
	free_ids(&session->requests);
	free_ids(&session->ids);
	devices_free(session);
	while ((raw = TAILQ_FIRST(&session->events))) {
		TAILQ_REMOVE(&session->events, raw, link);
		free_raw(raw); /* its request was freed with the table */
	}
	watch_drop_all(session);
	wire_done(&session->wire);
	free(session);
	return NULL;
}

int rdmabroker_get_fd(const struct rdmabroker *session)
{
	struct rdmabroker *s = (struct rdmabroker *)session;

	if (wire_check_process(&s->wire) == 0) {
		wire_lock(&s->wire);
		wire_be_polled(&s->wire);
		wire_unlock(&s->wire);
	}
	return s->wire.epoll;
}

/* What was received. All with the lock held. */

static size_t raw_size(const struct raw_event *raw)
{
	return raw->frame ? frame_get_size(raw->frame) : 0;
}

static void enqueue(struct rdmabroker *session, struct raw_event *raw)
{
	session->events_bytes += raw_size(raw);
	TAILQ_INSERT_TAIL(&session->events, raw, link);
}

/* Make RAW the next event again. */
static void put_back(struct rdmabroker *session, struct raw_event *raw)
{
	session->events_bytes += raw_size(raw);
	TAILQ_INSERT_HEAD(&session->events, raw, link);
}

static void take_raw(struct rdmabroker *session, struct raw_event *raw)
{
	session->events_bytes -= raw_size(raw);
	TAILQ_REMOVE(&session->events, raw, link);
}

/*
 * A CONNECT_REQUEST has a request_id, no other event has one. Types that only the library makes (DONE, LOST) are
 * not valid here. A negative status is an errno.
 */
static bool is_sound(const Rdmabroker__Event *event)
{
	return event->type <= RDMABROKER_EVENT_TIMEWAIT_EXIT && event->status > -4096 &&
	       (event->type == RDMABROKER_EVENT_CONNECT_REQUEST) == (event->request_id != 0);
}

/*
 * A connection request whose listener was destroyed here is queued without a listener, as an orphan. Its id is
 * created all the same, because session_destroy_orphans() destroys it, which makes the broker reject the request.
 */
static int on_event(void *userdata, Rdmabroker__Frame *frame)
{
	struct rdmabroker *session = userdata;
	const Rdmabroker__Event *event = frame->event;
	struct raw_event *raw = is_sound(event) ? calloc(1, sizeof(*raw)) : NULL;
	int r = 0;

	if (!raw) {
		r = is_sound(event) ? -ENOMEM : -EPROTO;
		frame_free(frame);
		return r;
	}
	raw->frame = frame;
	if (session->events_bytes + raw_size(raw) > EVENTS_BYTES_MAX) {
		free_raw(raw);
		return -ENOBUFS;
	}
	raw->type = (enum rdmabroker_event_type)event->type;
	raw->id = ids_find_living(session, event->id);
	if (event->request_id)
		r = id_new_request(session, event->request_id,
				   raw->id ? raw->id->ps : RDMABROKER_PS_TCP, &raw->request);
	if (r < 0 || (!raw->id && !raw->request)) {
		free_raw(raw);
		return r;
	}
	session->n_orphans += !raw->id;
	enqueue(session, raw);
	return 0;
}

static int enqueue_outcome(struct rdmabroker *session, struct rdmabroker_id *id,
			   const struct call *call, const Rdmabroker__Failure *failure)
{
	struct raw_event *raw = calloc(1, sizeof(*raw));

	if (!raw)
		return -ENOMEM;
	raw->id = id;
	raw->type = failure ? call->failure_type : RDMABROKER_EVENT_DONE;
	raw->call = call->name;
	raw->status = failure ? -(failure->error > 0 ? failure->error : EIO) : 0;
	raw->text = failure ? strdup(failure->text) : NULL;
	enqueue(session, raw);
	return 0;
}

static int on_outcome(void *userdata, struct call *call, const Rdmabroker__Reply *reply)
{
	struct rdmabroker *session = userdata;
	struct rdmabroker_id *id;
	int r = 0;

	if (call->destroys)
		ids_free(session, call->handle);
	if (!reply)
		return 0;
	id = call->destroys ? NULL : ids_find_living(session, call->handle);
	if (id && call->creates && reply->failure)
		id->is_new = true;
	if (call->waited) {
		/* Create the imported id now, because its events may be the next packets. */
		if (call->imports && reply->result_case == RDMABROKER__REPLY__RESULT_IMPORT_ID)
			r = call->no_import = id_new_request(
				session, reply->import_id->id,
				(enum rdmabroker_port_space)reply->import_id->port_space,
				&call->imported);
		/* Without memory only the import fails, not the session. */
		return r == -EPROTO ? r : 0;
	}
	if (id && reply->result_case == RDMABROKER__REPLY__RESULT_ID_INFO)
		id_set_info(id, reply->id_info);
	/* A listener has no QP. With RDMABROKER_NONBLOCK this reply to bind_addr may come after listen was called. */
	if (id && reply->init && !id->listening)
		in_qp_attr(&id->init, reply->init);
	if (id && !call->silent && (reply->failure || !call->quiet))
		r = enqueue_outcome(session, id, call, reply->failure);
	return r;
}

static void on_notice(void *userdata, Rdmabroker__Frame *frame)
{
	watch_on_notice(userdata, frame);
}

static bool has_news(void *userdata)
{
	struct rdmabroker *session = userdata;

	return !TAILQ_EMPTY(&session->events) || !TAILQ_EMPTY(&session->notices) ||
	       session->n_lost_notices > 0;
}

const struct wire_ops session_wire_ops = {
	.on_event = on_event,
	.on_notice = on_notice,
	.on_outcome = on_outcome,
	.has_news = has_news,
};

/*
 * Drops the events of ID that were not taken. Stops at a CONNECT_REQUEST and returns its id, which the caller has to
 * destroy; then the caller calls this again, until it returns NULL.
 */
struct rdmabroker_id *session_forget_id(struct rdmabroker *session, struct rdmabroker_id *id)
{
	struct rdmabroker_id *request;
	struct raw_event *raw, *next;
	struct call *call;

	for (raw = TAILQ_FIRST(&session->events); raw; raw = next) {
		next = TAILQ_NEXT(raw, link);
		if (raw->id != id)
			continue;
		request = raw->request;
		take_raw(session, raw);
		free_raw(raw);
		if (request)
			return request;
	}
	TAILQ_FOREACH(call, &session->wire.calls, link)
		if (call->handle == id->handle)
			call->silent = true;
	return NULL;
}

/* Moves the events of FROM to RET, in their order. Connection requests stay in the old session, as orphans. */
static void collect_events(struct rdmabroker_id *from, struct raw_events *ret)
{
	struct rdmabroker *session = from->session;
	struct raw_event *raw, *next;

	for (raw = TAILQ_FIRST(&session->events); raw; raw = next) {
		next = TAILQ_NEXT(raw, link);
		if (raw->id != from)
			continue;
		if (raw->request) {
			raw->id = NULL;
			session->n_orphans++;
			continue;
		}
		take_raw(session, raw);
		TAILQ_INSERT_TAIL(ret, raw, link);
	}
}

uint32_t session_adopt(struct rdmabroker_id *id, struct rdmabroker_id *moved)
{
	struct raw_events events = TAILQ_HEAD_INITIALIZER(events);
	struct rdmabroker *session = id->session;
	uint32_t handle = id->handle;
	struct raw_event *raw;

	wire_lock(&session->wire);
	while (id->n_digesting > 0)
		wire_wait(&session->wire);
	/* Events that are still in the socket have to move too. */
	wire_drain(&session->wire);
	collect_events(id, &events);
	*session_find_id(session, handle) = DYING;
	wire_unlock(&session->wire);

	session = moved->session;
	wire_lock(&session->wire);
	collect_events(moved, &events);
	*session_find_id(session, moved->handle) = id;
	id->session = session;
	id->handle = moved->handle;
	moved->handle = 0;
	while ((raw = TAILQ_FIRST(&events))) {
		TAILQ_REMOVE(&events, raw, link);
		raw->id = id;
		enqueue(session, raw);
	}
	wire_unlock(&session->wire);
	return handle;
}

/* Taking events */

static struct raw_event *find_raw(struct rdmabroker *session, const struct rdmabroker_id *id,
				  uint64_t types)
{
	struct raw_event *raw;

	TAILQ_FOREACH(raw, &session->events, link)
		if (raw->id &&
		    (!id || (raw->id == id && raw->type < 64 && (types & (1ULL << raw->type)))))
			return raw;
	return NULL;
}

static struct raw_event *find_orphan(struct rdmabroker *session)
{
	struct raw_event *raw;

	if (session->n_orphans == 0)
		return NULL;
	TAILQ_FOREACH(raw, &session->events, link)
		if (!raw->id)
			return raw;
	return NULL;
}

void session_destroy_orphans(struct rdmabroker *session)
{
	struct raw_event *raw;

	wire_lock(&session->wire);
	while ((raw = find_orphan(session))) {
		take_raw(session, raw);
		session->n_orphans--;
		wire_unlock(&session->wire);
		rdmabroker_destroy_id(raw->request);
		free_raw(raw);
		wire_lock(&session->wire);
	}
	wire_unlock(&session->wire);
}

static int take_lost(struct rdmabroker *session, struct event **ret)
{
	struct event *event;

	if (session->lost_taken)
		return fail(ECONNRESET, "the connection to the broker is lost");
	event = calloc(1, sizeof(*event));
	if (!event)
		return fail(ENOMEM, "out of memory");
	session->lost_taken = true;
	event->public.type = RDMABROKER_EVENT_LOST;
	event->public.status = session->wire.dead;
	event_set_text(event, "the connection to the broker is lost");
	*ret = event;
	return 0;
}

int session_take(struct rdmabroker *session, struct rdmabroker_id *id, uint64_t types,
		 int64_t deadline, struct call *call, struct event **ret)
{
	struct raw_event *raw;
	bool looked = false;
	int r = wire_check_process(&session->wire);

	if (r < 0)
		return r;
	session_destroy_orphans(session);
	wire_lock(&session->wire);
	for (;;) {
		raw = find_raw(session, id, types);
		if (raw) {
			take_raw(session, raw);
			raw->id->n_digesting++;
			break;
		}
		if (call && call->done) {
			r = wire_end(&session->wire, call);
			if (r < 0)
				break;
		}
		if (session->wire.dead) {
			r = id ? wire_check(&session->wire) : take_lost(session, ret);
			break;
		}
		/* Even with a timeout of 0 the socket is looked at once. */
		if (wire_is_past(deadline, looked)) {
			r = fail(EAGAIN, "no event");
			break;
		}
		looked = wire_pump(&session->wire, deadline) == -ETIMEDOUT;
		if (session->n_orphans > 0) {
			wire_unlock(&session->wire);
			session_destroy_orphans(session);
			wire_lock(&session->wire);
		}
	}
	if (call)
		wire_end(&session->wire, call);
	wire_unlock(&session->wire);
	if (!raw)
		return r;

	*ret = event_digest(raw);
	wire_lock(&session->wire);
	if (--raw->id->n_digesting == 0)
		wire_wake(&session->wire);
	if (!*ret)
		put_back(session, raw);
	wire_unlock(&session->wire);
	if (!*ret)
		return fail(ENOMEM, "out of memory: the event waits for another try");
	free_raw(raw);
	return 0;
}

int rdmabroker_get_event(struct rdmabroker *session, struct rdmabroker_event **ret, int timeout_ms)
{
	struct event *event;
	int r = session_take(session, NULL, 0, now_ms() + timeout_ms, NULL, &event);

	if (r == 0)
		*ret = &event->public;
	return r;
}
