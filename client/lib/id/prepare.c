/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/prepare.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"
#include "proto/address.h"

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
	r = idcall_do(id, "set_option", &request, ANSWER_AS_EVENT, NULL);
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
		r = fail(EPROTO, "get_option: the broker's reply has no value");
	frame_free(frame);
	return r;
}

/*
 * Stores the address and device of the id, which are in the reply. With RDMABROKER_NONBLOCK receive_outcome() stores
 * them when the reply comes.
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
	Rdmabroker__BindAddr m = RDMABROKER__BIND_ADDR__INIT;
	REQUEST(request, BIND_ADDR, bind_addr, &m);
	Rdmabroker__Address address;
	int r = message_put_address(&address, addr);

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

int prepare_resolve_message(struct rdmabroker_id *id, const char *name, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms, Rdmabroker__ResolveAddr *m,
			    struct resolve_message *ret)
{
	int r;

	if (timeout_ms <= 0)
		return fail(EINVAL, "%s: the timeout is not positive", name);
	r = message_put_address(&ret->dst, dst);
	if (r == 0 && src)
		r = message_put_address(&ret->src, src);
	if (r < 0)
		return r;
	m->id = id->handle;
	m->src = src ? &ret->src : NULL;
	address_unpack(&id->src, m->src);
	m->dst = &ret->dst;
	m->timeout_ms = (uint32_t)timeout_ms;
	return 0;
}

int prepare_resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			 const struct sockaddr *dst, int timeout_ms, bool route, struct call *call)
{
	Rdmabroker__ResolveAddr m = RDMABROKER__RESOLVE_ADDR__INIT;
	REQUEST(request, RESOLVE_ADDR, resolve_addr, &m);
	/* The name of the program's call, for DONE events and failures. */
	const char *name = route ? "resolve" : "resolve_addr";
	struct resolve_message to;
	int r = prepare_resolve_message(id, name, src, dst, timeout_ms, &m, &to);

	if (r < 0)
		return r;
	m.route = route;
	return call ? idcall_begin(id, call, name, &request, timeout_ms) :
		      idcall_do(id, name, &request, ANSWER_FAILURE_AS_EVENT, NULL);
}

int prepare_resolve_route(struct rdmabroker_id *id, int timeout_ms, struct call *call)
{
	Rdmabroker__ResolveRoute m = RDMABROKER__RESOLVE_ROUTE__INIT;
	REQUEST(request, RESOLVE_ROUTE, resolve_route, &m);

	if (timeout_ms <= 0)
		return fail(EINVAL, "resolve_route: the timeout is not positive");
	m.id = id->handle;
	m.timeout_ms = (uint32_t)timeout_ms;
	return call ? idcall_begin(id, call, "resolve_route", &request, timeout_ms) :
		      idcall_do(id, "resolve_route", &request, ANSWER_FAILURE_AS_EVENT, NULL);
}

int rdmabroker_resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms)
{
	return prepare_resolve_addr(id, src, dst, timeout_ms, /* route= */ false, NULL);
}

int rdmabroker_resolve(struct rdmabroker_id *id, const struct sockaddr *src,
		       const struct sockaddr *dst, int timeout_ms)
{
	return prepare_resolve_addr(id, src, dst, timeout_ms, /* route= */ true, NULL);
}

int rdmabroker_resolve_route(struct rdmabroker_id *id, int timeout_ms)
{
	return prepare_resolve_route(id, timeout_ms, NULL);
}
