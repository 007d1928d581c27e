/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Checks that the QP which a client offers for an id belongs to the client: the kernel would connect any
 * process's QP. The check runs in another thread, so its result comes in a later turn of the loop.
 */

#include <stdint.h>

struct fabric_lookup;
struct failure;
struct id;

struct qpcheck {
	struct fabric_lookup *lookup; /* NULL: none is pending */
	char device[64];
	uint32_t qpn;
	int answer; /* the result, as fabric_qp_belongs() returns it */
	uint64_t request; /* the session.last_request that may use the result; 0: none */
};

/*
 * Returns 0: the client may offer QPN of DEVICE; STATUS_NOT_OWNER or another status: it may not;
 * -EINPROGRESS: the result is not known yet. When it is known, the plan of an id that has one is repeated,
 * else the client's request.
 */
int qpcheck_run(struct id *id, const char *device, uint32_t qpn, struct failure *failure);
