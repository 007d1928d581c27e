/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Checks that a client offers the number of a QP of its own, because the kernel would connect the QP of any process.
 * If the kernel knows no QP of the number, a rule can accept the number ("qp reserved").
 */

#include <stdint.h>

struct failure;
struct id;
struct policy_rule;
struct intent;

/*
 * Returns 0: QPN of DEVICE is the client's, or the kernel knows no such QP. STATUS_NOT_OWNER: the client must not
 * offer QPN. For other results see bind.h.
 */
int qpcheck_run(struct id *id, const char *device, uint32_t qpn, struct failure *failure);
/* As qpcheck_run(), for a connect or accept that was held back: ANSWER is the result of a look-up for it. */
int qpcheck_held(struct id *id, const char *device, uint32_t qpn, int answer,
		 struct failure *failure);

/*
 * Checks that RULE accepts a QP number that the kernel does not know. Returns 0 or STATUS_NOT_OWNER. To be called
 * after each decision, because each can be by another rule.
 */
int qpcheck_by_rule(struct id *id, const struct policy_rule *rule, struct failure *failure);
/* If the kernel knows no QP of the number, reports that the id's rule accepts the number. */
void qpcheck_report(struct id *id, const struct intent *intent);
