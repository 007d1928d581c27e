/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* How ids begin, enter their states, move to another session, and end. For the results see bind.h. */

#include "core/object/id.h"

/* The client chooses HANDLE, from 1 up. */
int id_new(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
	   struct failure *failure);
/* The connection request in EVENT becomes an id of SESSION. On failure the caller keeps EVENT.request. */
int id_new_request(struct id **ret, struct session *session, const struct fabric_event *event,
		   enum rdma_port_space ps, struct failure *failure);
/* As id_new(), for an id of a previous process, whose HANDLE the client knows, without a fabric id. */
int id_new_again(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
		 struct failure *failure);
/*
 * FROM becomes a new id of SESSION, whose handle the broker chooses, with its state, its parts and its listener; it
 * must have no groups. FROM enters MOVED, and keeps its token and the events that its client has not read. On failure
 * nothing has changed.
 */
int id_move(struct id **ret, struct session *session, struct id *from, struct failure *failure);
struct id *id_free(struct id *id);

/*
 * Enters STATE. DISCONNECTED, FAILED and REMOVED end the id's admission. DISCONNECTED begins the id's time wait. Each
 * state but REQUEST frees the id's connection request.
 */
void id_set_state(struct id *id, enum id_state state);
