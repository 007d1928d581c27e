/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Checks that the QP which a client offers for an id belongs to the client, or that a rule accepts its number
 * although the kernel reports no such QP: the kernel would connect any process's QP. The owner is looked up in
 * another thread, so the result comes in a later turn of the loop.
 */

#include <stdbool.h>
#include <stdint.h>

struct fabric_lookup;
struct failure;
struct id;
struct policy_rule;
struct wish;

struct qpcheck {
	struct fabric_lookup *lookup; /* NULL: none is pending */
	char device[64];
	uint32_t qpn;
	int answer; /* the result, as fabric_qp_belongs() returns it */
	uint64_t request; /* the session.last_request that may use the result; 0: none */
	/* The kernel reports no QP of the number for which qpcheck_run() last returned 0. */
	bool is_unknown;
};

/*
 * Returns 0: the client may offer QPN of DEVICE, if qpcheck_by_rule() returns 0 too; STATUS_NOT_OWNER or another
 * status: it may not; -EINPROGRESS: the result is not known yet. When it is known, the plan of an id that has one
 * is repeated, else the client's request.
 */
int qpcheck_run(struct id *id, const char *device, uint32_t qpn, struct failure *failure);

/*
 * Whether RULE, which allows the connect or accept, accepts the number that was checked: 0 or STATUS_NOT_OWNER.
 * It depends on the rule only if the kernel reports no QP of that number. To be called after each decision,
 * because the policy can have been replaced since the check.
 */
int qpcheck_by_rule(struct id *id, const struct policy_rule *rule, struct failure *failure);
/* Reports that the id's rule accepts such a number; no effect with any other number. */
void qpcheck_report(struct id *id, const struct wish *wish);
