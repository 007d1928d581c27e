/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The QP of an id, and the states that it is moved to. */

#include <infiniband/verbs.h>

struct rdmabroker_id;

/* Negative: the connection manager's value. Others are reduced to the caps of the id's rule. */
int qpstate_to_rts(struct rdmabroker_id *id, struct ibv_qp *qp, int responder_resources,
		   int initiator_depth);
void qpstate_to_error(struct rdmabroker_id *id);
/* If the QP's device does not support ECE, setting has no effect, and querying returns vendor_id 0. */
int qpstate_set_ece(struct rdmabroker_id *id, const struct ibv_ece *ece);
int qpstate_query_ece(struct rdmabroker_id *id, struct ibv_ece *ret);
/* The device's maximum of responder resources and of the initiator depth. */
int qpstate_get_limits(const struct rdmabroker_id *id, int *ret_responder_resources,
		       int *ret_initiator_depth);
