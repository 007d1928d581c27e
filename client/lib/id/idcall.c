/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/wire/sessionparts.h"

#define N_OPTIONS 4

/* The message that creates the id in the broker, with the options that the program has set before. */
struct first {
	Rdmabroker__CreateId create;
	Rdmabroker__SetOption options[N_OPTIONS], *pointers[N_OPTIONS];
};

static Rdmabroker__CreateId *make_first(struct first *ret, const struct rdmabroker_id *id)
{
	rdmabroker__create_id__init(&ret->create);
	ret->create.id = id->handle;
	ret->create.port_space = id->ps;
	ret->create.options = ret->pointers;
	for (uint32_t i = 0; i < N_OPTIONS; i++) {
		Rdmabroker__SetOption *option = &ret->options[ret->create.n_options];

		if (id->options[i] < 0)
			continue;
		rdmabroker__set_option__init(option);
		option->option = i;
		option->value = id->options[i];
		ret->pointers[ret->create.n_options++] = option;
	}
	return &ret->create;
}

typedef int send_function(struct wire *wire, struct call *call, Rdmabroker__Request *request,
			  int timeout_ms);

/* Calls SEND with the lock held. If the id is new, REQUEST also creates the id in the broker. */
static int send_about(struct rdmabroker_id *id, send_function *send, struct call *call,
		      Rdmabroker__Request *request, int timeout_ms)
{
	struct first first;
	struct wire *wire = &id->session->wire;
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	call->handle = id->handle;
	wire_lock(wire);
	if (id->is_new) {
		request->first = make_first(&first, id);
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

int idcall_post(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		int timeout_ms)
{
	return send_about(id, call_send, like, request, timeout_ms);
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

/*
 * The stage is set before the request is sent, because another thread can receive the next event at once, and that
 * event sets the stage again.
 */
int idcall_step(struct rdmabroker_id *id, const struct step *step, struct call *call,
		Rdmabroker__Request *request, int timeout_ms)
{
	struct wire *wire = &id->session->wire;
	struct call like = {
		.name = step->name,
		.answer = ANSWER_FAILURE_AS_EVENT,
		.failure_type = RDMABROKER_EVENT_DONE,
		.outcomes = step->outcomes,
	};
	unsigned flags = id->session->flags;
	bool posts;
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	wire_lock(wire);
	posts = flags & RDMABROKER_FAIL_BY_EVENT && step->from & (1U << id->stage);
	id->stage = step->to;
	wire_unlock(wire);
	if (call) {
		*call = (struct call){ .name = step->name };
		r = send_about(id, call_begin, call, request, timeout_ms);
	} else if (posts || flags & RDMABROKER_NONBLOCK) {
		r = idcall_post(id, &like, request,
				flags & RDMABROKER_NONBLOCK ? 0 : wire->call_timeout_ms);
	} else {
		r = idcall_wait(id, step->name, request, wire->call_timeout_ms, NULL);
	}
	if (r < 0)
		idstate_set_stage(id, STAGE_UNKNOWN);
	return r;
}
