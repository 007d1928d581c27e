/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Requests about an id. They know whether the id is new, and create it in the broker by the first of them. Otherwise
 * they are as the functions of wire/calls.h.
 */

#include "client/lib/wire/calls.h"

struct rdmabroker_id;

int idcall_wait(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request,
		int timeout_ms, Rdmabroker__Frame **ret);
int idcall_wait_like(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		     int timeout_ms, Rdmabroker__Frame **ret);
/* The caller has to end CALL by call_end(), unless this fails. */
int idcall_begin(struct rdmabroker_id *id, struct call *call, const char *name,
		 Rdmabroker__Request *request, int timeout_ms);
int idcall_post(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		int timeout_ms);
/* Wait for the answer or, with RDMABROKER_NONBLOCK, leave it to an event as ANSWER says. */
int idcall_do(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request,
	      enum call_answer answer, Rdmabroker__Frame **ret);
