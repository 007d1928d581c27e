/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Sends requests about an id. The first request about a new id also creates the id in the broker. Apart from that the
 * functions are like those of wire/calls.h.
 */

#include "client/lib/id/idstate.h"
#include "client/lib/wire/calls.h"

int idcall_wait(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request,
		int timeout_ms, Rdmabroker__Frame **ret);
int idcall_wait_like(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		     int timeout_ms, Rdmabroker__Frame **ret);
/* Begin CALL. The caller has to end it by call_end(), unless this function fails. */
int idcall_begin(struct rdmabroker_id *id, struct call *call, const char *name,
		 Rdmabroker__Request *request, int timeout_ms);
int idcall_post(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		int timeout_ms);
/*
 * Wait for the reply, or with RDMABROKER_NONBLOCK do not wait: ANSWER then decides which event reports the outcome.
 */
int idcall_do(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request,
	      enum call_answer answer, Rdmabroker__Frame **ret);

/* A call that changes the stage of its id. */
struct step {
	const char *name;
	uint64_t outcomes; /* bits of the types of events that imply that the call has succeeded */
	unsigned from; /* bits of the stages in which the call need not wait for its reply */
	enum id_stage to; /* the stage after the call; if the call fails, it is STAGE_UNKNOWN */
};

/*
 * Send REQUEST. CALL not NULL: begin CALL as idcall_begin() does, for a caller that waits for the outcome. CALL NULL:
 * wait for the reply, with the session's timeout. With RDMABROKER_NONBLOCK, or with RDMABROKER_FAIL_BY_EVENT in a
 * stage of STEP's FROM, do not wait: a DONE event then reports a failure.
 */
int idcall_step(struct rdmabroker_id *id, const struct step *step, struct call *call,
		Rdmabroker__Request *request, int timeout_ms);
