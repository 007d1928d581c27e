/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The calls accept, establish, notify, reject and disconnect, and those for ECE options. */

struct call;
struct rdmabroker_conn_param;
struct rdmabroker_id;

/*
 * Move a QP that the library knows to RTS, except for a datagram id, and send the accept. CALL is as for
 * idcall_step(). For a datagram id CALL is not begun, because accepting a look-up has no outcome event: if CALL is
 * not NULL, wait for the reply, at most TIMEOUT_MS.
 */
int handshake_accept(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		     struct call *call, int timeout_ms);
/*
 * Move a QP that the library knows to ERR, except for a datagram id, and send the disconnect. CALL is as for
 * idcall_step(). Returns 1 if DISCONNECTED was taken before: no event will come, and CALL is not begun. Then
 * the disconnect is sent only with RDMABROKER_CONFIRM_DISCONNECT, to reply to the peer's.
 */
int handshake_disconnect(struct rdmabroker_id *id, struct call *call, int timeout_ms);
