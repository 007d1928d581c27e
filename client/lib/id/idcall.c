/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/wire/sessionparts.h"

/* The first request about an id also creates it in the broker. Lock held. */
static void put_first(struct rdmabroker_id *id, struct call *call, Rdmabroker__Request *request,
		      Rdmabroker__CreateId *first)
{
	if (!id->is_new)
		return;
	rdmabroker__create_id__init(first);
	first->id = id->handle;
	first->port_space = id->ps;
	request->first = first;
	call->effect = EFFECT_CREATES;
	id->is_new = false;
}

/* The request was not sent. Lock held. */
static void take_first_back(struct rdmabroker_id *id, const struct call *call)
{
	if (call->effect == EFFECT_CREATES)
		id->is_new = true;
}

int idcall_wait_like(struct rdmabroker_id *id, struct call *call, Rdmabroker__Request *request,
		     int timeout_ms, Rdmabroker__Frame **ret)
{
	struct wire *wire = &id->session->wire;
	Rdmabroker__CreateId first;
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	call->handle = id->handle;
	wire_lock(wire);
	put_first(id, call, request, &first);
	r = call_exchange(wire, call, request, timeout_ms);
	if (r < 0 && !call->order)
		take_first_back(id, call);
	wire_unlock(wire);
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
	struct wire *wire = &id->session->wire;
	Rdmabroker__CreateId first;
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	*call = (struct call){ .name = name, .handle = id->handle };
	wire_lock(wire);
	put_first(id, call, request, &first);
	r = call_begin(wire, call, request, timeout_ms);
	if (r < 0)
		take_first_back(id, call);
	wire_unlock(wire);
	return r;
}

int idcall_post(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		int timeout_ms)
{
	struct wire *wire = &id->session->wire;
	Rdmabroker__CreateId first;
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	like->handle = id->handle;
	wire_lock(wire);
	put_first(id, like, request, &first);
	r = call_send(wire, like, request, timeout_ms);
	if (r < 0)
		take_first_back(id, like);
	wire_unlock(wire);
	return r;
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
