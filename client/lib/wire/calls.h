/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Requests, and their replies. REQUEST's serial is filled in. RET may be NULL; the caller has to free *RET. */

#include "client/lib/wire/pending.h"

struct wire;

/* Send, and wait for the answer, at most TIMEOUT_MS. */
int call_wait(struct wire *wire, const char *name, Rdmabroker__Request *request, int timeout_ms,
	      Rdmabroker__Frame **ret);
/* The same with the session's timeout, for an answer of kind RESULT; any other kind is -EPROTO. */
int call_wait_for(struct wire *wire, const char *name, Rdmabroker__Request *request,
		  Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret);
/* The same as call_wait_for(), within TIMEOUT_MS. */
int call_wait_within(struct wire *wire, const char *name, Rdmabroker__Request *request,
		     Rdmabroker__Reply__ResultCase result, int timeout_ms, Rdmabroker__Frame **ret);
/* call_wait() with further members of LIKE set by the caller. LIKE is used for the call itself. */
int call_wait_like(struct wire *wire, struct call *like, Rdmabroker__Request *request,
		   int timeout_ms, Rdmabroker__Frame **ret);
/* Send without waiting; the answer is handled as the members of LIKE say. TIMEOUT_MS is for room in the socket. */
int call_post(struct wire *wire, const struct call *like, Rdmabroker__Request *request,
	      int timeout_ms);

/* What these are made of. The caller has locked, because he does more under the same lock. */

/* Send, and wait for the answer. CALL's order is 0 if it was not sent. */
int call_exchange(struct wire *wire, struct call *call, Rdmabroker__Request *request,
		  int timeout_ms);
/* The answer, after call_exchange() returned 0. With the lock or without it. */
int call_take_reply(struct call *call, Rdmabroker__Frame **ret);
/*
 * Send; the outcome is an event, or a failure that call_end() returns. CALL has to stay valid until call_end(). It is
 * ended already if this fails.
 */
int call_begin(struct wire *wire, struct call *call, Rdmabroker__Request *request, int timeout_ms);
/* 0: no failure has come. */
int call_end(struct wire *wire, struct call *call);
/* call_post() */
int call_send(struct wire *wire, const struct call *like, Rdmabroker__Request *request,
	      int timeout_ms);
