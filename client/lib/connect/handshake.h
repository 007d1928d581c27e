/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The calls accept, establish, notify, reject and disconnect, and those for ECE options. */

#include <stdbool.h>

struct call;
struct rdmabroker_conn_param;
struct rdmabroker_id;

/*
 * CALL NULL: send the request as idcall_do() does. CALL not NULL: begin CALL by idcall_begin(), for a caller that
 * waits for the outcome event. Accepting a look-up has no outcome event: if CALL is not NULL, this function then
 * waits for the reply instead.
 */
int handshake_accept(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		     struct call *call, int timeout_ms);
/* Returns 1 if the connection had ended already: nothing was sent, and there is no event to wait for. */
int handshake_disconnect(struct rdmabroker_id *id, struct call *call, int timeout_ms);
bool handshake_has_ended(struct rdmabroker_id *id);
