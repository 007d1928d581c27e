/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Connections; for the verbs' results see bind.h. */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>

struct failure;
struct id;

/* LOCAL_ECE may be NULL: none. */
int conn_connect(struct id *id, const struct rdma_conn_param *param,
		 const struct ibv_ece *local_ece, struct failure *failure);
int conn_accept(struct id *id, const struct rdma_conn_param *param, const struct ibv_ece *local_ece,
		struct failure *failure);
int conn_establish(struct id *id, struct failure *failure);
int conn_notify(struct id *id, enum ibv_event_type event, struct failure *failure);
int conn_reject(struct id *id, const void *data, size_t len, bool ece, struct failure *failure);
int conn_disconnect(struct id *id, struct failure *failure);

/* As conn_connect(), but also for an id with a plan. */
int conn_connect_planned(struct id *id, const struct rdma_conn_param *param,
			 const struct ibv_ece *local_ece, struct failure *failure);
/*
 * Sends the connect or accept that was held back. For an accept, ID.request must be set; it is NULL
 * afterwards.
 */
void conn_resume(struct id *id, const struct rdma_conn_param *param, bool accept);
