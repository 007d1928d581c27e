/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The verbs that connect, accept and disconnect; for their results see bind.h. */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>

struct failure;
struct id;

/* LOCAL_ECE: the ECE options to send to the peer. NULL, or a vendor_id of 0: none are sent. */
int conn_connect(struct id *id, const struct rdma_conn_param *param,
		 const struct ibv_ece *local_ece, struct failure *failure);
int conn_accept(struct id *id, const struct rdma_conn_param *param, const struct ibv_ece *local_ece,
		struct failure *failure);
int conn_establish(struct id *id, struct failure *failure);
int conn_notify(struct id *id, enum ibv_event_type event, struct failure *failure);
int conn_reject(struct id *id, const void *data, size_t len, bool ece, struct failure *failure);
int conn_disconnect(struct id *id, struct failure *failure);

/*
 * A connect or accept of ID fails after the client could count it as done, so an event CONNECT_ERROR says why: R is a status
 * that FAILURE explains, or a negative errno. The client of an id that was handed over meanwhile has nothing to learn.
 */
void conn_refuse(struct id *id, int r, const struct failure *failure);
/* Whether a connect or accept of ID waits for the look-up of its QP, see session_ops.resume. */
bool conn_is_looked_up(const struct id *id);
/*
 * Decides again about ID.held, and sends it, or holds it back again. It is also called when the look-up that it has
 * begun is done. On failure the client gets CONNECT_ERROR.
 */
void conn_resume(struct id *id);
