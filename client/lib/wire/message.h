/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Parts of messages: they are made from what the program passes, and read into libibverbs' structs. */

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include "client/rdmabroker.h"
#include "proto/rdmabroker.pb-c.h"

/* Declares a request on the stack, with MESSAGE as its FIELD. */
#define REQUEST(var, FIELD, field, message)                  \
	Rdmabroker__Request var = RDMABROKER__REQUEST__INIT; \
	var.op_case = RDMABROKER__REQUEST__OP_##FIELD;       \
	var.field = (message)

struct qp_attr {
	struct ibv_qp_attr attr;
	int mask; /* 0: not known */
};

/* Upper bounds that policy sets for the program's connection parameters; -1: none. */
struct caps {
	int responder_resources, initiator_depth, retry_count, rnr_retry_count;
};

/* RET points into ADDR. */
int message_put_address(Rdmabroker__Address *ret, const struct sockaddr *addr);
void message_put_conn_param(Rdmabroker__ConnParam *ret, const struct rdmabroker_conn_param *param);
/* Returns RET; NULL: there is none. */
Rdmabroker__Ece *message_put_ece(Rdmabroker__Ece *ret, const struct ibv_ece *ece);

void message_get_ah_attr(struct ibv_ah_attr *ret, const Rdmabroker__AhAttr *ah);
void message_get_caps(struct caps *ret, const Rdmabroker__Caps *caps); /* NULL: none */
void message_get_qp_attr(struct qp_attr *ret, const Rdmabroker__QpAttr *attr);
