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

/* Room in the listener's queue cannot be polled for: a full one is tried again until the deadline. */
static int connect_to(struct rdmabroker *session, const char *path, int64_t deadline)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(addr.sun_path))
		return open_fail(ENAMETOOLONG, "the socket's path is too long: %s", path);
	strcpy(addr.sun_path, path);
	session->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (session->sock < 0)
		return open_fail(errno, "no socket: %s", strerror(errno));
	while (connect(session->sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
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

	session->signal = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	session->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (session->signal < 0 || session->epoll < 0 ||
	    epoll_ctl(session->epoll, EPOLL_CTL_ADD, session->sock, &event) < 0 ||
	    epoll_ctl(session->epoll, EPOLL_CTL_ADD, session->signal, &event) < 0)
		return open_fail(errno, "no descriptors: %s", strerror(errno));
	return 0;
}

static int say_hello(struct rdmabroker *session, int timeout_ms)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;
	struct rdmabroker_failure failure;
	Rdmabroker__Frame *frame;
	int r;

	hello.version = 1;
	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	r = wire_call(session, "hello", 0, &request, timeout_ms, &frame);
	if (r < 0) {
		rdmabroker_get_failure(session, &failure);
		return open_fail(-r, "%s%s%s%s", failure.text, failure.rule ? " (rule " : "",
				 failure.rule ?: "", failure.rule ? ")" : "");
	}
	if (frame->reply->result_case != RDMABROKER__REPLY__RESULT_HELLO ||
	    frame->reply->hello->version != 1)
		r = open_fail(EPROTO, "the broker speaks another version of the protocol");
	else
		session->max_ids = frame->reply->hello->max_ids;
	rdmabroker__frame__free_unpacked(frame, NULL);
	return r;
}

int rdmabroker_open(struct rdmabroker **ret, const struct rdmabroker_options *options)
{
	const char *path = options && options->socket ? options->socket :
							secure_getenv("RDMABROKER_SOCKET");
	struct rdmabroker *session;
	int timeout_ms, r;

	if (options && options->size < sizeof(*options))
		return open_fail(EINVAL, "options.size is not sizeof(struct rdmabroker_options)");
	session = calloc(1, sizeof(*session));
	if (!session)
		return open_fail(ENOMEM, "out of memory");
	session->pid = getpid();
	session->flags = options ? options->flags : 0;
	session->call_timeout_ms = options && options->call_timeout_ms > 0 ?
					   options->call_timeout_ms :
					   RDMABROKER_TIMEOUT_DEFAULT;
	session->sock = session->signal = session->epoll = -1;
	pthread_mutex_init(&session->lock, NULL);
	pthread_cond_init(&session->cond, NULL);
	TAILQ_INIT(&session->calls);
	TAILQ_INIT(&session->events);
	LIST_INIT(&session->devices);

	timeout_ms = session->call_timeout_ms;
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
		rdmabroker__frame__free_unpacked(raw->frame, NULL);
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
	struct device *device;
	struct call *call;

	if (!session)
		return NULL;
	/* Nothing more is said: the end of the connection ends everything of it in the daemon. */
	if (!session->dead)
		session->dead = -ESHUTDOWN;
	free_ids(&session->requests);
	free_ids(&session->ids);
	while ((device = LIST_FIRST(&session->devices))) {
		device->n_opens = 1; /* the program's own opens end here too */
		device_put(session, device);
	}
	while ((raw = TAILQ_FIRST(&session->events))) {
		TAILQ_REMOVE(&session->events, raw, link);
		free_raw(raw); /* requests in it were freed with their table */
	}
	while ((call = TAILQ_FIRST(&session->calls))) {
		TAILQ_REMOVE(&session->calls, call, link);
		free(call);
	}
	if (session->epoll >= 0)
		close(session->epoll);
	if (session->signal >= 0)
		close(session->signal);
	if (session->sock >= 0)
		close(session->sock);
	pthread_cond_destroy(&session->cond);
	pthread_mutex_destroy(&session->lock);
	free(session);
	return NULL;
}

int rdmabroker_get_fd(const struct rdmabroker *session)
{
	return session->epoll;
}

/* What came: lock held */

static void enqueue(struct rdmabroker *session, struct raw_event *raw)
{
	uint64_t one = 1;

	TAILQ_INSERT_TAIL(&session->events, raw, link);
	if (write(session->signal, &one, sizeof(one)) < 0)
		return; /* the counter is high: it is readable as it is */
}

static struct rdmabroker_id *living(struct rdmabroker *session, uint32_t handle)
{
	struct rdmabroker_id **slot = session_find_id(session, handle);

	return slot && *slot != DYING ? *slot : NULL;
}

/*
 * A request whose listener is gone here has nobody to take it. Its id is made all the same, and left in
 * the queue without a listener: session_take() destroys it, which tells the daemon.
 */
void session_on_event(struct rdmabroker *session, Rdmabroker__Frame *frame)
{
	const Rdmabroker__Event *event = frame->event;
	struct raw_event *raw = calloc(1, sizeof(*raw));

	if (!raw) {
		rdmabroker__frame__free_unpacked(frame, NULL);
		return;
	}
	raw->frame = frame;
	raw->type = (enum rdmabroker_event_type)event->type;
	raw->id = living(session, event->id);
	if (event->request_id && id_new_request(session, event->request_id, &raw->request) < 0)
		raw->id = NULL;
	if (raw->id || raw->request)
		enqueue(session, raw);
	else
		free_raw(raw);
}

static void enqueue_outcome(struct rdmabroker *session, struct rdmabroker_id *id,
			    const struct call *call, const Rdmabroker__Failure *failure)
{
	struct raw_event *raw = calloc(1, sizeof(*raw));

	if (!raw)
		return;
	raw->id = id;
	raw->type = failure ? call->failure_type : RDMABROKER_EVENT_DONE;
	raw->call = call->name;
	raw->status = failure ? -failure->error : 0;
	raw->text = failure ? strdup(failure->text) : NULL;
	enqueue(session, raw);
}

void session_on_reply(struct rdmabroker *session, struct call *call, Rdmabroker__Frame *frame)
{
	const Rdmabroker__Reply *reply = frame->reply;
	struct rdmabroker_id *id;

	if (call->waited) {
		call->frame = frame;
		call->done = true;
		return;
	}
	id = living(session, call->handle);
	if (id && reply->result_case == RDMABROKER__REPLY__RESULT_ID_INFO)
		id_set_info(id, reply->id_info);
	if (id && !call->silent && (reply->failure || !call->quiet))
		enqueue_outcome(session, id, call, reply->failure);
	if (call->destroys)
		*session_find_id(session, call->handle) = NULL;
	rdmabroker__frame__free_unpacked(frame, NULL);
	free(call);
}

/* Events of ID that were not taken are dropped; requests to it are left to be destroyed. */
void session_forget_id(struct rdmabroker *session, struct rdmabroker_id *id)
{
	struct raw_event *raw, *next;
	struct call *call;

	for (raw = TAILQ_FIRST(&session->events); raw; raw = next) {
		next = TAILQ_NEXT(raw, link);
		if (raw->id != id)
			continue;
		raw->id = NULL;
		if (!raw->request) {
			TAILQ_REMOVE(&session->events, raw, link);
			free_raw(raw);
		}
	}
	TAILQ_FOREACH(call, &session->calls, link)
		if (call->handle == id->handle)
			call->silent = true;
}

/* What is taken */

static void set_text(struct event *event, const char *text)
{
	if (!text || !*text)
		return;
	snprintf(event->text, sizeof(event->text), "%s", text);
	event->public.text = event->text;
}

static void fill_conn(struct event *event, const Rdmabroker__ConnParam *conn)
{
	struct rdmabroker_conn_param *p = &event->public.conn;
	size_t n;

	if (!conn)
		return;
	n = conn->private_data.len < sizeof(event->private_data) ? conn->private_data.len :
								   sizeof(event->private_data) - 1;
	if (n > 255)
		n = 255;
	if (n > 0) {
		memcpy(event->private_data, conn->private_data.data, n);
		p->private_data = event->private_data;
	}
	p->private_data_len = (uint8_t)n;
	p->responder_resources = (uint8_t)conn->responder_resources;
	p->initiator_depth = (uint8_t)conn->initiator_depth;
	p->flow_control = (uint8_t)conn->flow_control;
	p->retry_count = (uint8_t)conn->retry_count;
	p->rnr_retry_count = (uint8_t)conn->rnr_retry_count;
	p->srq = (uint8_t)conn->srq;
	p->qp_num = conn->qp_num;
}

/* The transport's reasons, enum ib_cm_rej_reason of the kernel. */
enum {
	REJ_NO_LISTENER = 8,
	REJ_STALE = 10,
	REJ_CONSUMER = 28,
	REJ_VENDOR_OPTION = 35,
};

static void explain_reject(struct event *event)
{
	struct rdmabroker_event *e = &event->public;
	struct refusal refusal;

	switch (e->status) {
	case REJ_CONSUMER:
	case REJ_VENDOR_OPTION:
		if (!refusal_unpack(&refusal, e->conn.private_data, e->conn.private_data_len)) {
			e->rejected_by = RDMABROKER_REJECTED_BY_PEER;
			set_text(event, "by the peer's program");
			return;
		}
		e->rejected_by = RDMABROKER_REJECTED_BY_POLICY;
		e->reject_code = (enum rdmabroker_reject_code)refusal.code;
		e->retry_after_ms = refusal.retry_after_ms;
		set_text(event, refusal.text);
		return;
	case REJ_NO_LISTENER:
		e->rejected_by = RDMABROKER_REJECTED_NO_LISTENER;
		set_text(event, "nobody listens there");
		return;
	case REJ_STALE:
		e->rejected_by = RDMABROKER_REJECTED_STALE;
		set_text(event, "the peer still remembers an old connection of this QP number");
		return;
	default:
		e->rejected_by = RDMABROKER_REJECTED_BY_TRANSPORT;
		snprintf(event->text, sizeof(event->text), "by the transport, reason %d",
			 e->status);
		e->text = event->text;
	}
}

static void learn(struct rdmabroker_id *id, const Rdmabroker__Event *in)
{
	if (in->info)
		id_set_info(id, in->info);
	if (in->init)
		in_qp_attr(&id->init, in->init);
	if (in->rtr)
		in_qp_attr(&id->rtr, in->rtr);
	if (in->rts)
		in_qp_attr(&id->rts, in->rts);
}

/* The peer accepted: a QP that we know is moved, and the connection confirmed. */
static void complete_connect(struct rdmabroker_id *id, struct event *event)
{
	struct rdmabroker_failure failure;
	int r;

	if (!id->qp)
		return;
	r = qp_to_rts(id, -1, -1);
	if (r == 0)
		r = id_establish(id);
	if (r == 0) {
		event->public.type = RDMABROKER_EVENT_ESTABLISHED;
		return;
	}
	qp_to_error(id);
	rdmabroker_get_failure(id->session, &failure);
	event->public.type = RDMABROKER_EVENT_CONNECT_ERROR;
	event->public.status = r;
	set_text(event, failure.text);
}

static struct event *digest(struct raw_event *raw)
{
	struct event *event = calloc(1, sizeof(*event));
	struct rdmabroker_event *e;

	if (!event)
		return NULL;
	e = &event->public;
	e->type = raw->type;
	e->id = raw->id;
	if (!raw->frame) {
		e->call = raw->type == RDMABROKER_EVENT_DONE ? raw->call : NULL;
		e->status = raw->status;
		set_text(event, raw->text);
		return event;
	}

	e->status = raw->frame->event->status;
	fill_conn(event, raw->frame->event->conn);
	if (raw->frame->event->failure)
		set_text(event, raw->frame->event->failure->text);
	if (raw->request) {
		raw->request->context = raw->id->context;
		raw->request->request_responder_resources = e->conn.responder_resources;
		raw->request->request_initiator_depth = e->conn.initiator_depth;
		e->id = raw->request;
		e->listen_id = raw->id;
	}
	learn(e->id, raw->frame->event);

	switch (e->type) {
	case RDMABROKER_EVENT_CONNECT_RESPONSE:
		complete_connect(e->id, event);
		break;
	case RDMABROKER_EVENT_REJECTED:
		explain_reject(event);
		qp_to_error(e->id);
		break;
	default:
		break;
	}
	return event;
}

static struct raw_event *find_raw(struct rdmabroker *session, const struct rdmabroker_id *id,
				  uint64_t types)
{
	struct raw_event *raw;

	TAILQ_FOREACH(raw, &session->events, link)
		if (!raw->id || !id ||
		    (raw->id == id && raw->type < 64 && (types & (1ULL << raw->type))))
			return raw;
	return NULL;
}

static void take_raw(struct rdmabroker *session, struct raw_event *raw)
{
	uint64_t count;

	TAILQ_REMOVE(&session->events, raw, link);
	if (TAILQ_EMPTY(&session->events) && !session->dead &&
	    read(session->signal, &count, sizeof(count)) < 0)
		return; /* it was not set: nothing to clear */
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
	event->public.status = session->dead;
	set_text(event, "the connection to the broker is lost");
	*ret = event;
	return 0;
}

int session_take(struct rdmabroker *session, struct rdmabroker_id *id, uint64_t types,
		 int64_t deadline, struct event **ret)
{
	struct raw_event *raw;
	bool looked = false;
	int r = wire_check_process(session);

	if (r < 0)
		return r;
	pthread_mutex_lock(&session->lock);
	for (;;) {
		raw = find_raw(session, id, types);
		if (raw) {
			take_raw(session, raw);
			if (raw->id)
				break;
			pthread_mutex_unlock(&session->lock);
			rdmabroker_destroy_id(raw->request);
			free_raw(raw);
			pthread_mutex_lock(&session->lock);
			continue;
		}
		if (session->dead) {
			r = id ? wire_check(session) : take_lost(session, ret);
			break;
		}
		/* Once even without time: what is in the socket has not been seen yet. */
		if (looked && now_ms() >= deadline) {
			r = fail(EAGAIN, "no event");
			break;
		}
		looked = true;
		wire_pump(session, deadline);
	}
	pthread_mutex_unlock(&session->lock);
	if (!raw)
		return r;

	*ret = digest(raw);
	free_raw(raw);
	return *ret ? 0 : fail(ENOMEM, "an event is lost: out of memory");
}

int rdmabroker_get_event(struct rdmabroker *session, struct rdmabroker_event **ret, int timeout_ms)
{
	struct event *event;
	int r = session_take(session, NULL, 0, now_ms() + timeout_ms, &event);

	if (r == 0)
		*ret = &event->public;
	return r;
}

struct rdmabroker_event *rdmabroker_free_event(struct rdmabroker_event *event)
{
	/* The public part is the first. */
	free(event);
	return NULL;
}

const char *rdmabroker_event_str(enum rdmabroker_event_type type)
{
	switch (type) {
#define CASE(name)                    \
	case RDMABROKER_EVENT_##name: \
		return "RDMABROKER_EVENT_" #name
		CASE(ADDR_RESOLVED);
		CASE(ADDR_ERROR);
		CASE(ROUTE_RESOLVED);
		CASE(ROUTE_ERROR);
		CASE(CONNECT_REQUEST);
		CASE(CONNECT_RESPONSE);
		CASE(CONNECT_ERROR);
		CASE(UNREACHABLE);
		CASE(REJECTED);
		CASE(ESTABLISHED);
		CASE(DISCONNECTED);
		CASE(DEVICE_REMOVAL);
		CASE(ADDR_CHANGE);
		CASE(TIMEWAIT_EXIT);
		CASE(DONE);
		CASE(LOST);
#undef CASE
	}
	return "unknown event";
}
