/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Policy requests: what policy is asked to decide, with the facts that it decides by. */

#include <rdma/rdma_cma.h>

#include "fabric/fabric.h"
#include "policy/policy.h"
#include "proto/addr.h"

struct id;

/* A policy request. For the journal: WHAT as in "listen on", OBJECT as in "10.9.0.1:7471". */
struct wish {
	struct policy_question question; /* decide_ask() fills in the identity */
	const char *what;
	const char *object; /* NULL: made from the addresses */
	const struct sockaddr *addrs[2]; /* "A", or "A to B"; NULL: none */
	const struct id *id; /* that it is about; the listener, if a request comes; NULL: none */
};

/* The object as text. It is made only when needed, because most decisions are not reported. May return BUF. */
#define WISH_OBJECT_LEN (2 * ADDR_STRLEN + 4)
const char *wish_object(const struct wish *wish, char buf[WISH_OBJECT_LEN]);

/* A policy request about an id, with the facts that come from the fabric. */
struct id_wish {
	struct wish wish;
	struct fabric_id_info info;
};

void wish_to_listen(struct id_wish *ret, struct id *id);
void wish_to_connect(struct id_wish *ret, struct id *id);
/* REQUEST came to a listener of port space PS. EVENT has its private data; NULL: no longer known. */
void wish_to_accept(struct id_wish *ret, struct fabric_id *request, enum rdma_port_space ps,
		    const struct fabric_event *event);
void wish_to_join(struct id_wish *ret, struct id *id, const struct sockaddr *addr);
