/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Like wire/calls.h, for requests about an id. The first request about a new id also creates the id in the broker. */

#include "client/lib/id/idstate.h"
#include "client/lib/wire/calls.h"

/* Like REQUEST(), for a request about ID. */
#define ID_REQUEST(request, message, Type, TYPE, field, about) \
	REQUEST(request, message, Type, TYPE, field);          \
	message.id = (about)->handle

int idcall_wait(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request,
		int timeout_ms, Rdmabroker__Frame **ret);
int idcall_wait_like(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		     int timeout_ms, Rdmabroker__Frame **ret);
int idcall_post(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		int timeout_ms);
/*
 * Send REQUEST, and wait for the reply. With RDMABROKER_NONBLOCK do not wait: ANSWER selects the event that reports
 * the outcome.
 */
int idcall_do(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request,
	      enum call_answer answer, Rdmabroker__Frame **ret);

/* A call that changes the stage of its id. */
struct step {
	const char *name;
	uint64_t outcomes; /* types of events (bits) that imply that the call has succeeded */
	unsigned from; /* stages (bits) in which the call need not wait for its reply */
	enum id_stage to; /* the stage after the call, unless the call fails */
};

/*
 * Send REQUEST. CALL not NULL: begin CALL, for a caller that waits for the outcome. CALL NULL: wait for the reply,
 * with the session's timeout. In two cases do not wait, and let a DONE event report a failure: with
 * RDMABROKER_NONBLOCK, and with RDMABROKER_FAIL_BY_EVENT in a stage of STEP->from.
 */
int idcall_step(struct rdmabroker_id *id, const struct step *step, struct call *call,
		Rdmabroker__Request *request, int timeout_ms);
