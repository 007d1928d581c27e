/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Sends requests, and waits for their replies. All functions set REQUEST's serial. *RET is the reply, which the
 * caller has to free; RET may be NULL, except for call_wait_for().
 */

#include "client/lib/wire/pending.h"

struct wire;

/*
 * Send REQUEST, and wait for the reply, at most for the session's timeout. Returns 0, or the failure that the reply
 * reports.
 */
int call_wait(struct wire *wire, const char *name, Rdmabroker__Request *request);
/* Like call_wait(). -EPROTO: the reply is not of kind RESULT. */
int call_wait_for(struct wire *wire, const char *name, Rdmabroker__Request *request,
		  Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret);
/* Like call_wait(), but LIKE is the call, in which the caller has set the name and other members. */
int call_wait_like(struct wire *wire, struct call *like, Rdmabroker__Request *request,
		   int timeout_ms, Rdmabroker__Frame **ret);
/*
 * Send REQUEST without waiting for the reply, which is handled according to the members of LIKE. TIMEOUT_MS: how long
 * to wait for room in the socket; 0: not at all.
 */
int call_post(struct wire *wire, struct call *like, Rdmabroker__Request *request, int timeout_ms);

/* Parts of the functions above, for callers that do more under the same lock. The caller holds the lock. */

/* Send REQUEST, and wait for the reply. If REQUEST was not sent, CALL->order is 0. */
int call_exchange(struct wire *wire, struct call *call, Rdmabroker__Request *request,
		  int timeout_ms);
/*
 * Take the reply to CALL, after call_exchange() returned 0. Returns the failure that the reply reports, or 0. The
 * lock need not be held.
 */
int call_take_reply(struct call *call, Rdmabroker__Frame **ret);
/*
 * Send REQUEST; the outcome is an event, or a failure that call_end() returns. CALL has to stay valid until
 * call_end(), which the caller need not call if this fails.
 */
int call_begin(struct wire *wire, struct call *call, Rdmabroker__Request *request, int timeout_ms);
/* End CALL. Returns the failure that the broker replied; 0: none has come. */
int call_end(struct wire *wire, struct call *call);
/* Send REQUEST, whose outcome does not matter, by a direct wire. Never waits. Returns 0 or a negative errno. */
int call_tell(struct wire *wire, Rdmabroker__Request *request);
/* Like call_post(), with the lock held. */
int call_send(struct wire *wire, struct call *like, Rdmabroker__Request *request, int timeout_ms);
