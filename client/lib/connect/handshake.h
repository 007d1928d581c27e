/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Accept, reject and disconnect, and the steps between. */

#include <stdbool.h>

struct call;
struct rdmabroker_conn_param;
struct rdmabroker_id;

/* CALL not NULL: a caller waits. Accepting a look-up has no outcome event, so there the call waits for the reply. */
int handshake_accept(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		     struct call *call, int timeout_ms);
/* Returns 1 if the connection had ended already: nothing was sent, and there is no event to wait for. */
int handshake_disconnect(struct rdmabroker_id *id, struct call *call, int timeout_ms);
bool handshake_has_ended(struct rdmabroker_id *id);
