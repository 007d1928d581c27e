/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Calls of fabric.h for an id that a previous process has made, which has no rdma_cm_id. */

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "fabric/fabric.h"

struct leftover;

struct restored {
	struct leftover *leftover; /* NULL: the kernel has no such id any more */
	struct fabric_id_info info; /* its device is fabric_id.device */
	struct list joins; /* fabric_join.link */
	struct ibv_ece ece; /* for the next accept */
	/* What the connection request allows, for an accept that leaves it to that. */
	uint8_t responder_resources, initiator_depth;
};

bool restored_is_datagram(const struct fabric_id *id);
void restored_get_info(const struct fabric_id *id, struct fabric_id_info *ret);
in_port_t restored_get_port(const struct fabric_id *id); /* in network order; 0: none of its own */
int restored_accept(const struct fabric_id *id,
		    const struct rdma_conn_param *param); /* also in a thread */
int restored_establish(const struct fabric_id *id);
int restored_reject(const struct fabric_id *id, const void *data, size_t len, bool ece);
int restored_disconnect(const struct fabric_id *id);
int restored_notify(const struct fabric_id *id, enum ibv_event_type event);
int restored_set_local_ece(const struct fabric_id *id, const struct ibv_ece *ece);
int restored_set_option(const struct fabric_id *id, int option, const void *value, size_t len);
int restored_qp_attr(const struct fabric_id *id, enum ibv_qp_state state,
		     struct ibv_qp_attr *ret_attr, int *ret_mask);
int restored_join(struct fabric_join *join, uint32_t join_flags);
/* JOIN was joined by a previous process. */
void restored_add_join(struct fabric_join *join);
void restored_leave(struct fabric_join *join);
void restored_destroy(const struct fabric_id *id); /* runs in a thread */
void restored_free(struct fabric_id *id); /* called by the loop when the id is destroyed */
