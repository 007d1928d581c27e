/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"

#define REQUEST(var, FIELD, field, message)                  \
	Rdmabroker__Request var = RDMABROKER__REQUEST__INIT; \
	var.op_case = RDMABROKER__REQUEST__OP_##FIELD;       \
	var.field = (message)

#define BIT(type) (1ULL << RDMABROKER_EVENT_##type)

static const struct rdmabroker_conn_param default_param = {
	.responder_resources = 0xff,
	.initiator_depth = 0xff,
	.retry_count = 7,
	.rnr_retry_count = 7,
};

/* Life */

/* With all numbers taken, those whose ids were destroyed just now come free with the answer to that. */
static int choose_handle(struct rdmabroker *session, struct rdmabroker_id *id)
{
	bool wait = !(session->flags & RDMABROKER_NONBLOCK);
	int64_t deadline = now_ms() + (wait ? session->call_timeout_ms : 0);
	int r = wire_check_process(session);

	if (r < 0)
		return r;
	pthread_mutex_lock(&session->lock);
	do
		r = ids_add(&session->ids, id, session->max_ids, &id->handle);
	while (r == -EDQUOT && ids_have_dying(&session->ids) && wire_pump(session, deadline) == 0);
	pthread_mutex_unlock(&session->lock);
	return r;
}

int rdmabroker_create_id(struct rdmabroker *session, struct rdmabroker_id **ret, void *context,
			 enum rdmabroker_port_space ps)
{
	struct rdmabroker_id *id = calloc(1, sizeof(*id));
	Rdmabroker__CreateId m = RDMABROKER__CREATE_ID__INIT;
	REQUEST(request, CREATE_ID, create_id, &m);
	int r;

	if (!id)
		return fail(ENOMEM, "create_id: out of memory");
	id->session = session;
	id->context = context;
	r = choose_handle(session, id);
	if (r == -EDQUOT)
		fail(EDQUOT, "create_id: the session has %u ids, the limit", session->max_ids);
	else if (r < 0)
		fail(-r, "create_id: %s", strerror(-r));
	if (r < 0) {
		free(id);
		return r;
	}

	m.port_space = ps;
	m.id = id->handle;
	r = wire_do(session, "create_id", id->handle, &request, /* quiet= */ false, NULL);
	if (r < 0) {
		pthread_mutex_lock(&session->lock);
		*session_find_id(session, id->handle) = NULL;
		pthread_mutex_unlock(&session->lock);
		free(id);
		return r;
	}
	*ret = id;
	return 0;
}

int id_new_request(struct rdmabroker *session, uint32_t handle, struct rdmabroker_id **ret)
{
	struct rdmabroker_id *id = calloc(1, sizeof(*id));
	uint32_t n = handle - FIRST_REQUEST + 1;
	int r;

	if (!id)
		return -ENOMEM;
	id->session = session;
	id->handle = handle;
	r = handle < FIRST_REQUEST ? -EPROTO :
				     ids_add(&session->requests, id, session->max_ids, &n);
	if (r < 0) {
		free(id);
		return r;
	}
	*ret = id;
	return 0;
}

struct rdmabroker_id *rdmabroker_destroy_id(struct rdmabroker_id *id)
{
	Rdmabroker__DestroyId m = RDMABROKER__DESTROY_ID__INIT;
	REQUEST(request, DESTROY_ID, destroy_id, &m);
	struct call like = { .name = "destroy_id", .silent = true, .destroys = true };
	struct rdmabroker *session;

	if (!id)
		return NULL;
	session = id->session;
	if (wire_check_process(session) < 0)
		return NULL; /* the parent's, and so is its memory's twin here */

	pthread_mutex_lock(&session->lock);
	session_forget_id(session, id);
	*session_find_id(session, id->handle) = DYING;
	pthread_mutex_unlock(&session->lock);
	m.id = like.handle = id->handle;
	/* Where it cannot be sent the session is lost, and the id with it. */
	wire_post(session, &like, &request, session->call_timeout_ms);
	id_free(id);
	return NULL;
}

void id_free(struct rdmabroker_id *id)
{
	/* In a child of its process: the QP is the parent's, and is left alone. */
	if (wire_check_process(id->session) == 0)
		rdmabroker_destroy_qp(id);
	if (id->device)
		device_put(id->session, id->device);
	rdmabroker_free_event(id->reject ? &id->reject->public : NULL);
	free(id);
}

void id_set_info(struct rdmabroker_id *id, const Rdmabroker__IdInfo *info)
{
	if (info->local)
		in_address(&id->local, info->local);
	if (info->peer)
		in_address(&id->peer, info->peer);
	snprintf(id->device_name, sizeof(id->device_name), "%s", info->device);
}

void *rdmabroker_id_get_context(const struct rdmabroker_id *id)
{
	return id->context;
}

void rdmabroker_id_set_context(struct rdmabroker_id *id, void *context)
{
	id->context = context;
}

struct rdmabroker *rdmabroker_id_get_session(const struct rdmabroker_id *id)
{
	return id->session;
}

const struct sockaddr *rdmabroker_id_get_local_addr(const struct rdmabroker_id *id)
{
	return (const struct sockaddr *)&id->local;
}

const struct sockaddr *rdmabroker_id_get_peer_addr(const struct rdmabroker_id *id)
{
	return (const struct sockaddr *)&id->peer;
}

static uint16_t get_port(const struct sockaddr_storage *addr)
{
	switch (addr->ss_family) {
	case AF_INET:
		return ntohs(((const struct sockaddr_in *)addr)->sin_port);
	case AF_INET6:
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	default:
		return 0;
	}
}

uint16_t rdmabroker_id_get_local_port(const struct rdmabroker_id *id)
{
	return get_port(&id->local);
}

uint16_t rdmabroker_id_get_peer_port(const struct rdmabroker_id *id)
{
	return get_port(&id->peer);
}

const char *rdmabroker_id_get_device(const struct rdmabroker_id *id)
{
	return id->device_name[0] ? id->device_name : NULL;
}

/* Before the connection */

int rdmabroker_set_option(struct rdmabroker_id *id, enum rdmabroker_option option, int value)
{
	Rdmabroker__SetOption m = RDMABROKER__SET_OPTION__INIT;
	REQUEST(request, SET_OPTION, set_option, &m);

	m.id = id->handle;
	m.option = option;
	m.value = value;
	return wire_do(id->session, "set_option", id->handle, &request, false, NULL);
}

/* A reply that tells what the id is bound to now; in a session that does not block it comes later. */
static int do_and_learn(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request)
{
	Rdmabroker__Frame *frame = NULL;
	int r = wire_do(id->session, name, id->handle, request, /* quiet= */ false, &frame);

	if (frame) {
		if (frame->reply->result_case == RDMABROKER__REPLY__RESULT_ID_INFO)
			id_set_info(id, frame->reply->id_info);
		rdmabroker__frame__free_unpacked(frame, NULL);
	}
	return r;
}

int rdmabroker_bind_addr(struct rdmabroker_id *id, const struct sockaddr *addr)
{
	Rdmabroker__BindAddr m = RDMABROKER__BIND_ADDR__INIT;
	REQUEST(request, BIND_ADDR, bind_addr, &m);
	Rdmabroker__Address address;
	int r = out_address(&address, addr);

	if (r < 0)
		return r;
	m.id = id->handle;
	m.addr = &address;
	return do_and_learn(id, "bind_addr", &request);
}

int rdmabroker_listen(struct rdmabroker_id *id, int backlog)
{
	Rdmabroker__Listen m = RDMABROKER__LISTEN__INIT;
	REQUEST(request, LISTEN, listen, &m);

	m.id = id->handle;
	m.backlog = backlog > 0 ? (uint32_t)backlog : 0;
	return do_and_learn(id, "listen", &request);
}

static int resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			const struct sockaddr *dst, int timeout_ms, bool wait)
{
	Rdmabroker__ResolveAddr m = RDMABROKER__RESOLVE_ADDR__INIT;
	REQUEST(request, RESOLVE_ADDR, resolve_addr, &m);
	Rdmabroker__Address from, to;
	int r;

	if (timeout_ms <= 0)
		return fail(EINVAL, "resolve_addr: the timeout is not positive");
	r = out_address(&to, dst);
	if (r == 0 && src)
		r = out_address(&from, src);
	if (r < 0)
		return r;
	m.id = id->handle;
	m.src = src ? &from : NULL;
	m.dst = &to;
	m.timeout_ms = (uint32_t)timeout_ms;
	return wait ? wire_call(id->session, "resolve_addr", id->handle, &request, timeout_ms,
				NULL) :
		      wire_do(id->session, "resolve_addr", id->handle, &request, true, NULL);
}

static int resolve_route(struct rdmabroker_id *id, int timeout_ms, bool wait)
{
	Rdmabroker__ResolveRoute m = RDMABROKER__RESOLVE_ROUTE__INIT;
	REQUEST(request, RESOLVE_ROUTE, resolve_route, &m);

	if (timeout_ms <= 0)
		return fail(EINVAL, "resolve_route: the timeout is not positive");
	m.id = id->handle;
	m.timeout_ms = (uint32_t)timeout_ms;
	return wait ? wire_call(id->session, "resolve_route", id->handle, &request, timeout_ms,
				NULL) :
		      wire_do(id->session, "resolve_route", id->handle, &request, true, NULL);
}

int rdmabroker_resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms)
{
	return resolve_addr(id, src, dst, timeout_ms, /* wait= */ false);
}

int rdmabroker_resolve_route(struct rdmabroker_id *id, int timeout_ms)
{
	return resolve_route(id, timeout_ms, /* wait= */ false);
}

/* The connection */

static uint8_t at_most(int wanted, int max)
{
	return (uint8_t)(wanted < max ? wanted : max);
}

/*
 * What the peer's request offers bounds what "as many as the device can" means; the device's own bounds
 * are ours to look up, for the QP is in our process.
 */
static int fit_to_request(struct rdmabroker_id *id, struct rdmabroker_conn_param *param)
{
	struct ibv_device_attr attr;
	int r;

	if (param->responder_resources != 0xff && param->initiator_depth != 0xff)
		return 0;
	r = ibv_query_device(id->qp->context, &attr);
	if (r != 0)
		return fail(r, "accept: what the device can: %s", strerror(r));
	if (param->responder_resources == 0xff)
		param->responder_resources =
			at_most(id->request_responder_resources, attr.max_qp_rd_atom);
	if (param->initiator_depth == 0xff)
		param->initiator_depth =
			at_most(id->request_initiator_depth, attr.max_qp_init_rd_atom);
	return 0;
}

static int prepare(struct rdmabroker_id *id, const char *name,
		   const struct rdmabroker_conn_param *param, size_t max_data,
		   struct rdmabroker_conn_param *ret)
{
	if (!param && !id->qp)
		return fail(EINVAL, "%s: no parameters, and no QP that the library knows", name);
	*ret = param ? *param : default_param;
	if (ret->private_data && ret->private_data_len > max_data)
		return fail(E2BIG, "%s: %u bytes of private data are more than %zu", name,
			    ret->private_data_len, max_data);
	if (id->qp) {
		ret->qp_num = id->qp->qp_num;
		ret->srq = id->qp->srq != NULL;
	}
	if (ret->retry_count > 7 || ret->rnr_retry_count > 7)
		return fail(EINVAL, "%s: a retry count is more than 7", name);
	return 0;
}

static int connect_id(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		      bool wait, int timeout_ms)
{
	Rdmabroker__Connect m = RDMABROKER__CONNECT__INIT;
	REQUEST(request, CONNECT, connect, &m);
	struct rdmabroker_conn_param p;
	Rdmabroker__ConnParam out;
	int r = prepare(id, "connect", param, RDMABROKER_CONNECT_DATA_MAX, &p);

	if (r < 0)
		return r;
	out_conn_param(&out, &p);
	m.id = id->handle;
	m.param = &out;
	return wait ? wire_call(id->session, "connect", id->handle, &request, timeout_ms, NULL) :
		      wire_do(id->session, "connect", id->handle, &request, true, NULL);
}

static int accept_id(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param, bool wait,
		     int timeout_ms)
{
	Rdmabroker__Accept m = RDMABROKER__ACCEPT__INIT;
	REQUEST(request, ACCEPT, accept, &m);
	struct rdmabroker_conn_param p;
	Rdmabroker__ConnParam out;
	int r = prepare(id, "accept", param, RDMABROKER_ACCEPT_DATA_MAX, &p);

	if (r == 0 && id->qp) {
		r = fit_to_request(id, &p);
		if (r == 0)
			r = qp_to_rts(id, p.responder_resources, p.initiator_depth);
	}
	if (r < 0)
		return r;
	out_conn_param(&out, &p);
	m.id = id->handle;
	m.param = &out;
	r = wait ? wire_call(id->session, "accept", id->handle, &request, timeout_ms, NULL) :
		   wire_do(id->session, "accept", id->handle, &request, true, NULL);
	if (r < 0)
		qp_to_error(id);
	return r;
}

int rdmabroker_connect(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param)
{
	return connect_id(id, param, /* wait= */ false, 0);
}

int rdmabroker_accept(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param)
{
	return accept_id(id, param, /* wait= */ false, 0);
}

int rdmabroker_establish(struct rdmabroker_id *id)
{
	Rdmabroker__Establish m = RDMABROKER__ESTABLISH__INIT;
	REQUEST(request, ESTABLISH, establish, &m);

	if (id->qp)
		return fail(EINVAL, "establish: the library does this for a QP that it knows");
	m.id = id->handle;
	return wire_do(id->session, "establish", id->handle, &request, false, NULL);
}

/* Not waited for: should it fail, an event says so. */
int id_establish(struct rdmabroker_id *id)
{
	Rdmabroker__Establish m = RDMABROKER__ESTABLISH__INIT;
	REQUEST(request, ESTABLISH, establish, &m);
	struct call like = {
		.name = "establish",
		.handle = id->handle,
		.quiet = true,
		.failure_type = RDMABROKER_EVENT_CONNECT_ERROR,
	};

	m.id = id->handle;
	return wire_post(id->session, &like, &request, id->session->call_timeout_ms);
}

int rdmabroker_reject(struct rdmabroker_id *id, const void *data, uint8_t len)
{
	Rdmabroker__Reject m = RDMABROKER__REJECT__INIT;
	REQUEST(request, REJECT, reject, &m);

	if (len > RDMABROKER_REJECT_DATA_MAX)
		return fail(E2BIG, "reject: %u bytes of private data are more than %u", len,
			    RDMABROKER_REJECT_DATA_MAX);
	m.id = id->handle;
	m.private_data.len = data ? len : 0;
	m.private_data.data = (uint8_t *)data;
	return wire_do(id->session, "reject", id->handle, &request, false, NULL);
}

static int disconnect_id(struct rdmabroker_id *id, bool wait, int timeout_ms)
{
	Rdmabroker__Disconnect m = RDMABROKER__DISCONNECT__INIT;
	REQUEST(request, DISCONNECT, disconnect, &m);

	qp_to_error(id);
	m.id = id->handle;
	return wait ? wire_call(id->session, "disconnect", id->handle, &request, timeout_ms, NULL) :
		      wire_do(id->session, "disconnect", id->handle, &request, true, NULL);
}

int rdmabroker_disconnect(struct rdmabroker_id *id)
{
	return disconnect_id(id, /* wait= */ false, 0);
}

/* The forms that wait */

/*
 * Other events of the id stay where they are. RET_EVENT, if not NULL, gets the event where it was not the
 * one hoped for.
 */
static int await(struct rdmabroker_id *id, const char *name, uint64_t good, uint64_t bad,
		 int64_t deadline, struct event **ret_event)
{
	struct event *event;
	int r = session_take(id->session, id, good | bad | BIT(DEVICE_REMOVAL), deadline, &event);

	if (r == -EAGAIN)
		return fail(ETIMEDOUT, "%s: no outcome in time", name);
	if (r < 0)
		return r;
	if (!(good & (1ULL << event->public.type))) {
		switch (event->public.type) {
		case RDMABROKER_EVENT_REJECTED:
			r = fail(ECONNREFUSED, "%s: rejected%s%s", name,
				 event->public.text ? ": " : "", event->public.text ?: "");
			break;
		case RDMABROKER_EVENT_UNREACHABLE:
			r = fail(EHOSTUNREACH, "%s: the peer does not answer", name);
			break;
		case RDMABROKER_EVENT_DEVICE_REMOVAL:
			r = fail(ENODEV, "%s: the device was removed", name);
			break;
		default: {
			int error = event->public.status < 0 ? -event->public.status : ECONNABORTED;

			r = fail(error, "%s: %s", name, event->public.text ?: strerror(error));
		}
		}
		if (ret_event) {
			*ret_event = event;
			return r;
		}
	}
	rdmabroker_free_event(&event->public);
	return r;
}

int rdmabroker_resolve_addr_wait(struct rdmabroker_id *id, const struct sockaddr *src,
				 const struct sockaddr *dst, int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	int r = resolve_addr(id, src, dst, timeout_ms, /* wait= */ true);

	return r < 0 ? r :
		       await(id, "resolve_addr", BIT(ADDR_RESOLVED), BIT(ADDR_ERROR), deadline,
			     NULL);
}

int rdmabroker_resolve_route_wait(struct rdmabroker_id *id, int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	int r = resolve_route(id, timeout_ms, /* wait= */ true);

	return r < 0 ? r :
		       await(id, "resolve_route", BIT(ROUTE_RESOLVED), BIT(ROUTE_ERROR), deadline,
			     NULL);
}

int rdmabroker_connect_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			    int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	struct event *event = NULL;
	int r = connect_id(id, param, /* wait= */ true, timeout_ms);

	if (r < 0)
		return r;
	r = await(id, "connect", BIT(ESTABLISHED) | BIT(CONNECT_RESPONSE),
		  BIT(REJECTED) | BIT(UNREACHABLE) | BIT(CONNECT_ERROR), deadline, &event);
	if (event && event->public.type == RDMABROKER_EVENT_REJECTED) {
		rdmabroker_free_event(id->reject ? &id->reject->public : NULL);
		id->reject = event;
	} else if (event) {
		rdmabroker_free_event(&event->public);
	}
	return r;
}

const struct rdmabroker_event *rdmabroker_get_reject(const struct rdmabroker_id *id)
{
	return id->reject ? &id->reject->public : NULL;
}

int rdmabroker_accept_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			   int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	int r = accept_id(id, param, /* wait= */ true, timeout_ms);

	return r < 0 ? r :
		       await(id, "accept", BIT(ESTABLISHED),
			     BIT(CONNECT_ERROR) | BIT(REJECTED) | BIT(UNREACHABLE) |
				     BIT(DISCONNECTED),
			     deadline, NULL);
}

int rdmabroker_disconnect_wait(struct rdmabroker_id *id, int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	int r = disconnect_id(id, /* wait= */ true, timeout_ms);

	return r < 0 ? r : await(id, "disconnect", BIT(DISCONNECTED), 0, deadline, NULL);
}
