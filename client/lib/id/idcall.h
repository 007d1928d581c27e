/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Sends requests about an id. The first request about a new id also creates the id in the broker. Apart from that the
 * functions are like those of wire/calls.h.
 */

#include "client/lib/wire/calls.h"

struct rdmabroker_id;

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
