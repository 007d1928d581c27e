/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The QP of an id, and the states that it is moved to. */

#include <infiniband/verbs.h>

struct rdmabroker_id;

int qpstate_to_init(struct rdmabroker_id *id);
int qpstate_to_rts(struct rdmabroker_id *id, int responder_resources, int initiator_depth);
void qpstate_to_error(struct rdmabroker_id *id);
/*
 * Set or query the ECE options of the id's QP. If the device does not support ECE, setting them has no effect, and
 * the options queried have vendor_id 0.
 */
int qpstate_set_ece(struct rdmabroker_id *id, const struct ibv_ece *ece);
int qpstate_query_ece(struct rdmabroker_id *id, struct ibv_ece *ret);
/* The maximum of responder resources and of the initiator depth that the QP's device supports. */
int qpstate_get_limits(struct rdmabroker_id *id, int *ret_responder_resources,
		       int *ret_initiator_depth);
