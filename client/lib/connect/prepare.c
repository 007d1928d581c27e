/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>

#include "client/lib/event/receive.h"
#include "client/lib/event/take.h"
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"
#include "proto/address.h"

/* The calls that precede a connection: set options, bind, listen, and resolve the address and the route. */

/* A route depends on TOS and ACK_TIMEOUT: if one is set, a route that the broker resolved in advance is not used. */
static void forget_route(struct rdmabroker_id *id, enum rdmabroker_option option)
{
	if (option != RDMABROKER_OPTION_TOS && option != RDMABROKER_OPTION_ACK_TIMEOUT)
		return;
	wire_lock(&id->session->wire);
	id->routed = false;
	wire_unlock(&id->session->wire);
}

/*
 * Whether to send the option later, with the request that creates the id: only with RDMABROKER_FAIL_BY_EVENT, for a
 * new id, and if the broker and the kernel are certain to accept the value.
 */
static bool is_deferred(struct rdmabroker_id *id, enum rdmabroker_option option, int value)
{
	if (!(id->session->flags & RDMABROKER_FAIL_BY_EVENT) || value < 0 || value > 255)
		return false;
	if (option > RDMABROKER_OPTION_ACK_TIMEOUT ||
	    (option == RDMABROKER_OPTION_ACK_TIMEOUT && idstate_is_datagram(id)))
		return false;
	return idstate_read(id, &id->is_new);
}

int rdmabroker_set_option(struct rdmabroker_id *id, enum rdmabroker_option option, int value)
{
	ID_REQUEST(request, m, SetOption, SET_OPTION, set_option, id);
	int r;

	if (is_deferred(id, option, value)) {
		id->options[option] = value;
		return 0;
	}
	m.option = option;
	m.value = value;
	forget_route(id, option);
	/* The option can change attributes that came with a connection request or response. */
	id->rtr.mask = id->rts.mask = 0;
	r = idcall_do(id, "set_option", &request, ANSWER_AS_EVENT, NULL);
	for (int i = 0; i < IDSTATE_OPTIONS && r == 0; i++)
		if (idstate_option(i) == option)
			id->options[i] = value;
	return r;
}

int rdmabroker_get_option(struct rdmabroker_id *id, enum rdmabroker_option option, int *ret)
{
	ID_REQUEST(request, m, GetOption, GET_OPTION, get_option, id);
	Rdmabroker__Frame *frame;
	int r;

	m.option = option;
	r = idcall_wait(id, "get_option", &request, id->session->wire.call_timeout_ms, &frame);
	if (r < 0)
		return r;
	if (frame->reply->result_case == RDMABROKER__REPLY__RESULT_GET_OPTION)
		*ret = frame->reply->get_option->value;
	else
		r = fail(EPROTO, "get_option: the broker's reply has no value");
	frame_free(frame);
	return r;
}

/*
 * Stores the address, the device and the INIT attributes from the reply. With RDMABROKER_NONBLOCK receive_outcome()
 * stores them.
 */
static int do_and_learn(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request)
{
	Rdmabroker__Frame *frame = NULL;
	int r = idcall_do(id, name, request, ANSWER_AS_EVENT, &frame);

	if (frame) {
		if (frame->reply->result_case == RDMABROKER__REPLY__RESULT_ID_INFO)
			idstate_set_info(id, frame->reply->id_info);
		if (frame->reply->init)
			message_get_qp_attr(&id->init, frame->reply->init);
		frame_free(frame);
	}
	return r;
}

int rdmabroker_bind_addr(struct rdmabroker_id *id, const struct sockaddr *addr)
{
	ID_REQUEST(request, m, BindAddr, BIND_ADDR, bind_addr, id);
	Rdmabroker__Address address;
	int r = message_put_address(&address, addr);

	if (r < 0)
		return r;
	m.addr = &address;
	r = do_and_learn(id, "bind_addr", &request);
	id->bound |= r == 0;
	return r;
}

int rdmabroker_listen(struct rdmabroker_id *id, int backlog)
{
	ID_REQUEST(request, m, Listen, LISTEN, listen, id);
	int r;

	m.backlog = backlog > 0 ? (uint32_t)backlog : 0;
	r = do_and_learn(id, "listen", &request);
	if (r < 0)
		return r;
	id->listening = true;
	idstate_set_stage(id, STAGE_UNKNOWN);
	id->init.mask = 0; /* a listener has no QP */
	return r;
}

static void expect_route(struct rdmabroker_id *id, bool wanted)
{
	wire_lock(&id->session->wire);
	id->routed = false;
	id->wants_route = wanted;
	wire_unlock(&id->session->wire);
}

/* ROUTE: resolve the route, too. CALL not NULL: begin CALL, for a caller that waits for the outcome. */
static int resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			const struct sockaddr *dst, int timeout_ms, bool route, struct call *call)
{
	ID_REQUEST(request, m, ResolveAddr, RESOLVE_ADDR, resolve_addr, id);
	/* The name of the program's call, for DONE events and failures. */
	struct step step = {
		.name = route ? "resolve" : "resolve_addr",
		.outcomes = BIT(ADDR_RESOLVED),
	};
	Rdmabroker__Address to_src, to_dst;
	int r;

	if (timeout_ms <= 0)
		return fail(EINVAL, "%s: the timeout is not positive", step.name);
	r = message_put_address(&to_dst, dst);
	if (r == 0 && src)
		r = message_put_address(&to_src, src);
	if (r < 0)
		return r;
	m.src = src ? &to_src : NULL;
	address_unpack(&id->src, m.src);
	m.dst = &to_dst;
	m.timeout_ms = (uint32_t)timeout_ms;
	m.route = route;
	/*
	 * AHEAD: the broker resolves the route in advance. Not for datagram ids, which can join groups only while no
	 * route is resolved.
	 */
	m.ahead = !idstate_is_datagram(id);
	expect_route(id, route);
	/* With a source address the call can fail like bind_addr, whatever the stage is. */
	step.from = src ? 0 : 1 << STAGE_NEW;
	return idcall_step(id, &step, call, &request, timeout_ms);
}

/*
 * *RET true: the broker has resolved the route in advance, so ROUTE_RESOLVED is queued, and no request is needed.
 * Refuses a second resolve_route, because the broker knows of no first one if no request was sent.
 */
static int take_route(struct rdmabroker_id *id, bool *ret)
{
	bool is_second;
	int r = 0;

	wire_lock(&id->session->wire);
	is_second = id->wants_route && id->stage == STAGE_ROUTE_RESOLVED;
	*ret = id->routed;
	if (id->routed || id->stage == STAGE_ADDR_RESOLVED)
		id->wants_route = true;
	if (id->routed)
		r = receive_route(id);
	wire_unlock(&id->session->wire);
	if (is_second)
		return fail(EINVAL, "resolve_route: id %u is route resolved", id->handle);
	return r < 0 ? fail(-r, "resolve_route: out of memory") : 0;
}

static int resolve_route(struct rdmabroker_id *id, int timeout_ms, struct call *call)
{
	ID_REQUEST(request, m, ResolveRoute, RESOLVE_ROUTE, resolve_route, id);
	static const struct step step = {
		.name = "resolve_route",
		.outcomes = BIT(ROUTE_RESOLVED),
		.from = 1 << STAGE_ADDR_RESOLVED,
	};
	bool routed = false;
	int r;

	if (timeout_ms <= 0)
		return fail(EINVAL, "resolve_route: the timeout is not positive");
	r = wire_check_process(&id->session->wire);
	if (r == 0)
		r = take_route(id, &routed);
	if (r < 0)
		return r;
	if (routed) {
		if (call)
			*call = (struct call){ .name = step.name };
		return 0;
	}
	m.timeout_ms = (uint32_t)timeout_ms;
	return idcall_step(id, &step, call, &request, timeout_ms);
}

int rdmabroker_resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms)
{
	return resolve_addr(id, src, dst, timeout_ms, /* route= */ false, NULL);
}

int rdmabroker_resolve(struct rdmabroker_id *id, const struct sockaddr *src,
		       const struct sockaddr *dst, int timeout_ms)
{
	return resolve_addr(id, src, dst, timeout_ms, /* route= */ true, NULL);
}

int rdmabroker_resolve_route(struct rdmabroker_id *id, int timeout_ms)
{
	return resolve_route(id, timeout_ms, NULL);
}

int rdmabroker_resolve_addr_wait(struct rdmabroker_id *id, const struct sockaddr *src,
				 const struct sockaddr *dst, int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct call call;
	int r = resolve_addr(id, src, dst, timeout_ms, /* route= */ false, &call);

	return r < 0 ? r : take_outcome(id, &call, BIT(ADDR_RESOLVED), BIT(ADDR_ERROR), deadline);
}

int rdmabroker_resolve_wait(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct call call;
	int r = resolve_addr(id, src, dst, timeout_ms, /* route= */ true, &call);

	if (r == 0)
		r = take_outcome(id, &call, BIT(ADDR_RESOLVED), BIT(ADDR_ERROR), deadline);
	if (r == 0)
		r = take_outcome(id, &call, BIT(ROUTE_RESOLVED), BIT(ROUTE_ERROR), deadline);
	return r;
}

int rdmabroker_resolve_route_wait(struct rdmabroker_id *id, int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct call call;
	int r = resolve_route(id, timeout_ms, &call);

	return r < 0 ? r : take_outcome(id, &call, BIT(ROUTE_RESOLVED), BIT(ROUTE_ERROR), deadline);
}

/* The program has got a route. The broker does not know that, if it has resolved the route in advance. */
static bool has_route(struct rdmabroker_id *id)
{
	bool ret;

	wire_lock(&id->session->wire);
	ret = id->wants_route && id->stage == STAGE_ROUTE_RESOLVED;
	wire_unlock(&id->session->wire);
	return ret;
}

int rdmabroker_set_path(struct rdmabroker_id *id, const struct ibv_path_record *path,
			int timeout_ms)
{
	ID_REQUEST(request, m, ResolveRoute, RESOLVE_ROUTE, resolve_route, id);
	int r;

	if (timeout_ms <= 0)
		return fail(EINVAL, "set_path: the timeout is not positive");
	if (has_route(id))
		return fail(EINVAL, "set_path: id %u is route resolved", id->handle);
	m.timeout_ms = (uint32_t)timeout_ms;
	m.path.len = sizeof(*path);
	m.path.data = (uint8_t *)path;
	/* The route that the broker may have resolved in advance is not used. */
	expect_route(id, /* wanted= */ true);
	r = idcall_do(id, "set_path", &request, ANSWER_AS_EVENT, NULL);
	if (r < 0)
		expect_route(id, /* wanted= */ false);
	return r;
}

/* As rdma_create_ep(): an id with address, device and queue pair in one call. */
int rdmabroker_create_ep(struct rdmabroker *session, const struct addrinfo *info,
			 enum rdmabroker_port_space ps, struct ibv_pd *pd,
			 struct ibv_qp_init_attr *attr, int timeout_ms, struct rdmabroker_id **ret)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct rdmabroker_id *id;
	int r = rdmabroker_create_id(session, ps, NULL, &id);

	if (r < 0)
		return r;
	if (info->ai_flags & AI_PASSIVE) {
		r = rdmabroker_bind_addr(id, info->ai_addr);
	} else {
		r = rdmabroker_resolve_addr_wait(id, NULL, info->ai_addr,
						 deadline_timeout_ms(deadline));
		if (r == 0)
			r = rdmabroker_resolve_route_wait(id, deadline_timeout_ms(deadline));
		if (r == 0 && attr)
			r = rdmabroker_create_qp(id, pd, attr);
	}
	if (r < 0)
		rdmabroker_destroy_id(id);
	else
		*ret = id;
	return r;
}
