/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Checks the QP number that a client offers for an id, because the kernel would connect the QP of any process. The QP
 * must belong to the client. If the kernel reports no QP of the number, a rule can accept the number ("qp reserved").
 * A thread looks up the owner, so the result usually comes in a later turn of the loop.
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
	uint64_t request; /* the session.last_request that the result is for; 0: none */
	/* qpcheck_run() last returned 0 although the kernel reports no QP of the number. */
	bool is_unknown;
};

/*
 * Returns 0: the client is allowed to offer QPN of DEVICE, if qpcheck_by_rule() returns 0 too; STATUS_NOT_OWNER or
 * another status: the client must not offer it; -EINPROGRESS: the result is not known yet. When the result is known,
 * the client's request is repeated.
 */
int qpcheck_run(struct id *id, const char *device, uint32_t qpn, struct failure *failure);

/*
 * Checks that RULE, which allows the connect or accept, also accepts the QP number that qpcheck_run() has checked.
 * Returns 0 or STATUS_NOT_OWNER; always 0 if the kernel reports a QP of that number. To be called after each
 * decision, because the policy can have been replaced since qpcheck_run().
 */
int qpcheck_by_rule(struct id *id, const struct policy_rule *rule, struct failure *failure);
/*
 * If the kernel reports no QP of the number that was checked, reports by decide_audit() that the id's rule accepts
 * the number. Otherwise does nothing.
 */
void qpcheck_report(struct id *id, const struct wish *wish);
