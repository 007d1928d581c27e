/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "proto/addr.h"
#include "proto/address.h"

/* Life */

/* Any request would do here: its reply implies that all earlier requests were processed. */
static int ask_for_an_answer(struct rdmabroker *session, bool wait)
{
	Rdmabroker__ListDevices m = RDMABROKER__LIST_DEVICES__INIT;
	REQUEST(request, LIST_DEVICES, list_devices, &m);
	struct call like = { .name = "list_devices", .silent = true, .answered = true };

	return wire_post(&session->wire, &like, &request, wait ? session->wire.call_timeout_ms : 0);
}

/* If all numbers are in use, some perhaps by ids just destroyed, a reply from the broker frees the latter. */
static int choose_handle(struct rdmabroker *session, struct rdmabroker_id *id)
{
	bool wait = !(session->flags & RDMABROKER_NONBLOCK), is_full;
	int64_t deadline = now_ms() + (wait ? session->wire.call_timeout_ms : 0);
	int r = wire_check_process(&session->wire);

	if (r < 0)
		return r;
	wire_lock(&session->wire);
	r = ids_add(&session->ids, id, session->max_ids, &id->handle);
	is_full = r == -EDQUOT && ids_have_dying(&session->ids);
	wire_unlock(&session->wire);
	if (!is_full)
		return r;
	r = ask_for_an_answer(session, wait);
	if (r < 0)
		return r;
	wire_lock(&session->wire);
	do
		r = ids_add(&session->ids, id, session->max_ids, &id->handle);
	while (r == -EDQUOT && ids_have_dying(&session->ids) &&
	       wire_pump(&session->wire, deadline) == 0 &&
	       !wire_is_past(deadline, /* looked= */ false));
	wire_unlock(&session->wire);
	return r;
}

/* Drop the events of ID that were not taken, and destroy the requests among them. Lock held, released meanwhile. */
static void forget_events(struct rdmabroker_id *id)
{
	struct rdmabroker *session = id->session;
	struct rdmabroker_id *request;

	while (id->n_digesting > 0)
		wire_wait(&session->wire);
	while ((request = session_forget_id(session, id))) {
		wire_unlock(&session->wire);
		rdmabroker_destroy_id(request);
		wire_lock(&session->wire);
	}
}

static bool is_port_space(enum rdmabroker_port_space ps)
{
	switch (ps) {
	case RDMABROKER_PS_IPOIB:
	case RDMABROKER_PS_TCP:
	case RDMABROKER_PS_UDP:
	case RDMABROKER_PS_IB:
		return true;
	}
	return false;
}

/* For RDMABROKER_NONBLOCK: a DONE event brings the outcome, so the broker creates the id at once. */
static int create_now(struct rdmabroker_id *id)
{
	struct rdmabroker *session = id->session;
	Rdmabroker__CreateId m = RDMABROKER__CREATE_ID__INIT;
	REQUEST(request, CREATE_ID, create_id, &m);
	int r;

	m.port_space = id->ps;
	m.id = id->handle;
	r = idcall_do(id, "create_id", &request, /* quiet= */ false, NULL);
	if (r < 0) {
		wire_lock(&session->wire);
		forget_events(id);
		ids_free(session, id->handle);
		wire_unlock(&session->wire);
		id->handle = 0;
	}
	return r;
}

/* Chooses a number. The broker creates the id with the next request about it. */
int id_create(struct rdmabroker_id *id)
{
	struct rdmabroker *session = id->session;
	int r;

	if (!is_port_space(id->ps))
		return fail(EINVAL, "create_id: there is no port space 0x%x", id->ps);
	id->handle = 0;
	id->disconnected = false;
	r = choose_handle(session, id);
	if (r == -EDQUOT)
		return fail(EDQUOT, "create_id: the session has %u ids, the limit",
			    session->max_ids);
	if (r < 0)
		return fail(-r, "create_id: %s", strerror(-r));

	id->is_new = true;
	return 0;
}

int rdmabroker_create_id(struct rdmabroker *session, struct rdmabroker_id **ret, void *context,
			 enum rdmabroker_port_space ps)
{
	struct rdmabroker_id *id = calloc(1, sizeof(*id));
	int r;

	if (!id)
		return fail(ENOMEM, "create_id: out of memory");
	id->session = session;
	id->context = context;
	id->ps = ps;
	in_caps(&id->caps, NULL);
	memset(id->options, -1, sizeof(id->options));
	r = id_create(id);
	if (r == 0 && session->flags & RDMABROKER_NONBLOCK) {
		id->is_new = false;
		r = create_now(id);
	}
	if (r < 0)
		free(id);
	else
		*ret = id;
	return r;
}

int id_new_request(struct rdmabroker *session, uint32_t handle, enum rdmabroker_port_space ps,
		   struct rdmabroker_id **ret)
{
	struct rdmabroker_id *id = calloc(1, sizeof(*id));
	uint32_t n = handle - FIRST_REQUEST + 1;
	int r;

	if (!id)
		return -ENOMEM;
	id->session = session;
	id->handle = handle;
	id->ps = ps;
	in_caps(&id->caps, NULL);
	wire_handle_is_free(&session->wire, handle);
	r = handle < FIRST_REQUEST ? -EPROTO : ids_add(&session->requests, id, IDS_MAX, &n);
	if (r < 0) {
		free(id);
		/* The number is out of range, or in use. */
		return r == -ENOMEM ? r : -EPROTO;
	}
	*ret = id;
	return 0;
}

/* Does not wait for the answer. */
void id_give_up_handle(struct rdmabroker *session, uint32_t handle)
{
	Rdmabroker__DestroyId m = RDMABROKER__DESTROY_ID__INIT;
	REQUEST(request, DESTROY_ID, destroy_id, &m);
	struct call like = {
		.name = "destroy_id",
		.handle = handle,
		.silent = true,
		.destroys = true,
	};

	m.id = handle;
	/* If it cannot be sent the session is given up, which ends the id too. */
	if (wire_post(&session->wire, &like, &request, session->wire.call_timeout_ms) == -ETIMEDOUT)
		wire_lose(&session->wire, -ETIMEDOUT);
}

int id_give_up(struct rdmabroker_id *id, int timeout_ms)
{
	struct rdmabroker *session = id->session;
	Rdmabroker__DestroyId m = RDMABROKER__DESTROY_ID__INIT;
	REQUEST(request, DESTROY_ID, destroy_id, &m);
	struct call like = { .name = "destroy_id", .silent = true, .destroys = true };
	bool is_new;
	int r;

	if (id->handle == 0)
		return 0;
	wire_lock(&session->wire);
	/* Reject connection requests that are still in the socket now, not when a thread reads them later. */
	if (id->listening)
		wire_drain(&session->wire);
	forget_events(id);
	is_new = id->is_new;
	if (is_new)
		ids_free(session, id->handle);
	else
		*session_find_id(session, id->handle) = DYING;
	wire_unlock(&session->wire);
	if (is_new) {
		id->handle = 0;
		id->is_new = false;
		return 0;
	}
	m.id = like.handle = id->handle;
	id->handle = 0;
	/* Wait for the answer: otherwise connection requests that come before it would not be rejected. */
	if (timeout_ms == 0 && id->listening && !(session->flags & RDMABROKER_NONBLOCK))
		timeout_ms = session->wire.call_timeout_ms;
	if (timeout_ms == 0) {
		id_give_up_handle(session, m.id);
		return 0;
	}
	r = wire_call_like(&session->wire, &like, &request, timeout_ms, NULL);
	session_destroy_orphans(session);
	return r;
}

static int destroy_id(struct rdmabroker_id *id, int timeout_ms)
{
	int r;

	if (!id)
		return 0;
	/* In a child the id belongs to the parent; the child's copy of its memory is left alone too. */
	r = wire_check_process(&id->session->wire);
	if (r < 0)
		return r;
	r = id_give_up(id, timeout_ms);
	id_free(id);
	return r;
}

struct rdmabroker_id *rdmabroker_destroy_id(struct rdmabroker_id *id)
{
	destroy_id(id, 0);
	return NULL;
}

int rdmabroker_destroy_id_wait(struct rdmabroker_id *id, int timeout_ms)
{
	return destroy_id(id, timeout_ms > 0 ? timeout_ms : 1);
}

void id_free(struct rdmabroker_id *id)
{
	joins_free(id);
	/* In a child the QP belongs to the parent. */
	if (wire_check_process(&id->session->wire) == 0)
		rdmabroker_destroy_qp(id);
	if (id->device)
		device_put(id->session, id->device);
	rdmabroker_free_event(id->reject ? &id->reject->public : NULL);
	rdmabroker_free_event(id->response ? &id->response->public : NULL);
	rdmabroker_free_event(id->request ? &id->request->public : NULL);
	free(id);
}

void id_set_info(struct rdmabroker_id *id, const Rdmabroker__IdInfo *info)
{
	if (info->local)
		address_unpack(&id->local, info->local);
	if (info->peer)
		address_unpack(&id->peer, info->peer);
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

uint16_t rdmabroker_id_get_local_port(const struct rdmabroker_id *id)
{
	return addr_port((const struct sockaddr *)&id->local);
}

uint16_t rdmabroker_id_get_peer_port(const struct rdmabroker_id *id)
{
	return addr_port((const struct sockaddr *)&id->peer);
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
	int r;

	m.id = id->handle;
	m.option = option;
	m.value = value;
	/* The option may change the attributes that came with a connection request. */
	id->rtr.mask = id->rts.mask = 0;
	r = idcall_do(id, "set_option", &request, false, NULL);
	if (r == 0 && option <= RDMABROKER_OPTION_ACK_TIMEOUT)
		id->options[option] = value;
	return r;
}

int rdmabroker_get_option(struct rdmabroker_id *id, enum rdmabroker_option option, int *ret)
{
	Rdmabroker__GetOption m = RDMABROKER__GET_OPTION__INIT;
	REQUEST(request, GET_OPTION, get_option, &m);
	Rdmabroker__Frame *frame;
	int r;

	m.id = id->handle;
	m.option = option;
	r = idcall_wait(id, "get_option", &request, id->session->wire.call_timeout_ms, &frame);
	if (r < 0)
		return r;
	if (frame->reply->result_case == RDMABROKER__REPLY__RESULT_GET_OPTION)
		*ret = frame->reply->get_option->value;
	else
		r = fail(EPROTO, "get_option: the broker's answer has no value");
	frame_free(frame);
	return r;
}

/* The reply says what the id is bound to. With RDMABROKER_NONBLOCK on_outcome() stores that later. */
static int do_and_learn(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request)
{
	Rdmabroker__Frame *frame = NULL;
	int r = idcall_do(id, name, request, /* quiet= */ false, &frame);

	if (frame) {
		if (frame->reply->result_case == RDMABROKER__REPLY__RESULT_ID_INFO)
			id_set_info(id, frame->reply->id_info);
		if (frame->reply->init)
			in_qp_attr(&id->init, frame->reply->init);
		frame_free(frame);
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
	r = do_and_learn(id, "bind_addr", &request);
	id->bound |= r == 0;
	return r;
}

int rdmabroker_listen(struct rdmabroker_id *id, int backlog)
{
	Rdmabroker__Listen m = RDMABROKER__LISTEN__INIT;
	REQUEST(request, LISTEN, listen, &m);
	int r;

	m.id = id->handle;
	m.backlog = backlog > 0 ? (uint32_t)backlog : 0;
	r = do_and_learn(id, "listen", &request);
	if (r < 0)
		return r;
	id->listening = true;
	id->init.mask = 0; /* a listener has no QP */
	return r;
}

int id_fill_resolve(struct rdmabroker_id *id, const char *name, const struct sockaddr *src,
		    const struct sockaddr *dst, int timeout_ms, Rdmabroker__ResolveAddr *m,
		    struct resolve_message *ret)
{
	int r;

	if (timeout_ms <= 0)
		return fail(EINVAL, "%s: the timeout is not positive", name);
	r = out_address(&ret->dst, dst);
	if (r == 0 && src)
		r = out_address(&ret->src, src);
	if (r < 0)
		return r;
	m->id = id->handle;
	m->src = src ? &ret->src : NULL;
	address_unpack(&id->src, m->src);
	m->dst = &ret->dst;
	m->timeout_ms = (uint32_t)timeout_ms;
	return 0;
}

static int resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			const struct sockaddr *dst, int timeout_ms, bool route, struct call *call)
{
	Rdmabroker__ResolveAddr m = RDMABROKER__RESOLVE_ADDR__INIT;
	REQUEST(request, RESOLVE_ADDR, resolve_addr, &m);
	/* The name of the program's call, for DONE events and failures. */
	const char *name = route ? "resolve" : "resolve_addr";
	struct resolve_message to;
	int r = id_fill_resolve(id, name, src, dst, timeout_ms, &m, &to);

	if (r < 0)
		return r;
	m.route = route;
	return call ? idcall_begin(id, call, name, &request, timeout_ms) :
		      idcall_do(id, name, &request, true, NULL);
}

static int resolve_route(struct rdmabroker_id *id, int timeout_ms, struct call *call)
{
	Rdmabroker__ResolveRoute m = RDMABROKER__RESOLVE_ROUTE__INIT;
	REQUEST(request, RESOLVE_ROUTE, resolve_route, &m);

	if (timeout_ms <= 0)
		return fail(EINVAL, "resolve_route: the timeout is not positive");
	m.id = id->handle;
	m.timeout_ms = (uint32_t)timeout_ms;
	return call ? idcall_begin(id, call, "resolve_route", &request, timeout_ms) :
		      idcall_do(id, "resolve_route", &request, true, NULL);
}

int rdmabroker_resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms)
{
	return resolve_addr(id, src, dst, timeout_ms, /* route= */ false, NULL);
}

int rdmabroker_resolve_route(struct rdmabroker_id *id, int timeout_ms)
{
	return resolve_route(id, timeout_ms, NULL);
}

int rdmabroker_resolve_addr_wait(struct rdmabroker_id *id, const struct sockaddr *src,
				 const struct sockaddr *dst, int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	struct call call;
	int r = resolve_addr(id, src, dst, timeout_ms, /* route= */ false, &call);

	return r < 0 ? r : id_await(id, &call, BIT(ADDR_RESOLVED), BIT(ADDR_ERROR), deadline);
}

int rdmabroker_resolve(struct rdmabroker_id *id, const struct sockaddr *src,
		       const struct sockaddr *dst, int timeout_ms)
{
	return resolve_addr(id, src, dst, timeout_ms, /* route= */ true, NULL);
}

int rdmabroker_resolve_wait(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	struct call call;
	int r = resolve_addr(id, src, dst, timeout_ms, /* route= */ true, &call);

	if (r == 0)
		r = id_await(id, &call, BIT(ADDR_RESOLVED), BIT(ADDR_ERROR), deadline);
	if (r == 0)
		r = id_await(id, &call, BIT(ROUTE_RESOLVED), BIT(ROUTE_ERROR), deadline);
	return r;
}

int rdmabroker_resolve_route_wait(struct rdmabroker_id *id, int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	struct call call;
	int r = resolve_route(id, timeout_ms, &call);

	return r < 0 ? r : id_await(id, &call, BIT(ROUTE_RESOLVED), BIT(ROUTE_ERROR), deadline);
}
