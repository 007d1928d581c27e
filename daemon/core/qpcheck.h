/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The check that the QP offered for an id belongs to the client: the kernel would connect any process's QP.
 * It runs outside the loop, so it takes more than one turn.
 */

#include <stdint.h>

struct fabric_lookup;
struct failure;
struct id;

struct qpcheck {
	struct fabric_lookup *lookup; /* NULL: none is pending */
	char device[64];
	uint32_t qpn;
	int answer; /* the result, as of fabric_qp_belongs() */
	uint64_t request; /* the session.last_request that may use the result; 0: none */
};

/*
 * 0: the client may offer QPN of DEVICE; STATUS_NOT_OWNER and others: it may not; -EINPROGRESS: not known
 * yet. Then what needs the result is repeated: the plan of an id that has one, else the client's request.
 */
int qpcheck_run(struct id *id, const char *device, uint32_t qpn, struct failure *failure);
