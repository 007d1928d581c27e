/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/wire/sessionparts.h"

typedef int send_function(struct wire *wire, struct call *call, Rdmabroker__Request *request,
			  int timeout_ms);

/* Calls SEND with the lock held. The first request about an id also creates it in the broker. */
static int send_about(struct rdmabroker_id *id, send_function *send, struct call *call,
		      Rdmabroker__Request *request, int timeout_ms)
{
	Rdmabroker__CreateId first = RDMABROKER__CREATE_ID__INIT;
	struct wire *wire = &id->session->wire;
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	call->handle = id->handle;
	wire_lock(wire);
	if (id->is_new) {
		first.id = id->handle;
		first.port_space = id->ps;
		request->first = &first;
		call->effect = EFFECT_CREATES;
		id->is_new = false;
	}
	r = send(wire, call, request, timeout_ms);
	/* If the request was not sent (order 0), the next one has to create the id. */
	if (r < 0 && !call->order && request->first)
		id->is_new = true;
	request->first = NULL;
	wire_unlock(wire);
	return r;
}

int idcall_wait_like(struct rdmabroker_id *id, struct call *call, Rdmabroker__Request *request,
		     int timeout_ms, Rdmabroker__Frame **ret)
{
	int r = send_about(id, call_exchange, call, request, timeout_ms);

	return r < 0 ? r : call_take_reply(call, ret);
}

int idcall_wait(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request,
		int timeout_ms, Rdmabroker__Frame **ret)
{
	struct call call = { .name = name };

	return idcall_wait_like(id, &call, request, timeout_ms, ret);
}

int idcall_begin(struct rdmabroker_id *id, struct call *call, const char *name,
		 Rdmabroker__Request *request, int timeout_ms)
{
	*call = (struct call){ .name = name };
	return send_about(id, call_begin, call, request, timeout_ms);
}

static int send_like(struct wire *wire, struct call *like, Rdmabroker__Request *request,
		     int timeout_ms)
{
	return call_send(wire, like, request, timeout_ms);
}

int idcall_post(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		int timeout_ms)
{
	return send_about(id, send_like, like, request, timeout_ms);
}

int idcall_do(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request,
	      enum call_answer answer, Rdmabroker__Frame **ret)
{
	struct call like = {
		.name = name,
		.answer = answer,
		.failure_type = RDMABROKER_EVENT_DONE,
	};

	if (id->session->flags & RDMABROKER_NONBLOCK)
		return idcall_post(id, &like, request, /* timeout_ms= */ 0);
	return idcall_wait(id, name, request, id->session->wire.call_timeout_ms, ret);
}
