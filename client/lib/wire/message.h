/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Converts structs of the public API to parts of messages, and parts of messages to structs of libibverbs. */

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include "client/rdmabroker.h"
#include "proto/rdmabroker.pb-c.h"

/* Declares REQUEST on the stack, and MESSAGE, which is its FIELD. */
#define REQUEST(request, message, Type, TYPE, field)             \
	Rdmabroker__##Type message = RDMABROKER__##TYPE##__INIT; \
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT; \
	request.op_case = RDMABROKER__REQUEST__OP_##TYPE;        \
	request.field = &message

struct qp_attr {
	struct ibv_qp_attr attr;
	int mask; /* 0: not known */
};

/* The rule's caps for the connection parameters that become attributes of the QP; -1: none. */
struct caps {
	int responder_resources, initiator_depth;
};

/* NULL: TEXT is empty. */
static inline const char *message_get_text(const char *text)
{
	return text[0] ? text : NULL;
}

/* The same of a message; NULL: empty. */
static inline char *message_put_text(const char *text)
{
	return (char *)(text ?: "");
}

/* RET points into ADDR. -EAFNOSUPPORT or -EINVAL: ADDR is not an IP address. */
int message_put_address(Rdmabroker__Address *ret, const struct sockaddr *addr);
/* Returns RET; NULL: ECE has no options (vendor_id 0). */
Rdmabroker__Ece *message_put_ece(Rdmabroker__Ece *ret, const struct ibv_ece *ece);

void message_get_ah_attr(struct ibv_ah_attr *ret, const Rdmabroker__AhAttr *ah);
void message_get_caps(struct caps *ret, const Rdmabroker__Caps *caps); /* CAPS NULL: none */
void message_get_qp_attr(struct qp_attr *ret, const Rdmabroker__QpAttr *attr);
/* The attributes for several states. Those of a state for which ATTR has none are not changed. ATTR NULL: no effect. */
void message_get_qp_attrs(struct qp_attr *init, struct qp_attr *rtr, struct qp_attr *rts,
			  const Rdmabroker__QpAttr *attr);
