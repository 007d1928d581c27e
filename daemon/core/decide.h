/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Decisions about a session's policy requests, and their reports in the journal. First the rule decides, then
 * the rule's limits: a policy request that is allowed may still exceed a limit.
 */

#include "core/admission.h"
#include "core/session.h"
#include "core/wish.h"
#include "policy/policy.h"

/* Decides without counting or reporting. */
void decide_ask(struct session *session, struct wish *wish, struct policy_verdict *ret);
/*
 * Likewise, but the decision is counted for its rule and reported to the sessions that watch. It is written
 * to the journal if it rejects, or if its rule has "log". A decision that is deferred, or that allows early,
 * is neither counted nor reported.
 */
void decide(struct session *session, struct wish *wish, struct policy_verdict *ret);
/*
 * Reports a decision to the sessions that watch, and to the journal under the conditions of decide(). VERDICT
 * is of the policy in force. OVERFLOW may be NULL.
 */
void decide_audit(struct session *session, const struct wish *wish,
		  const struct policy_verdict *verdict, const struct overflow *overflow);
/*
 * Checks the limits of RULE, which allows the policy request, and counts it. PENDING as in tally_admit().
 * Returns 0, a negative errno, or STATUS_BUSY: then FAILURE has the reason, and the time to retry.
 */
int decide_admit(struct session *session, const struct wish *wish, const struct policy_rule *rule,
		 struct tally *tally, bool pending, struct admitted *ret, struct failure *failure);
/*
 * Refuses what RULE, whose tally is TALLY, allows, because the limit in OVERFLOW is reached. Returns
 * STATUS_BUSY.
 */
int decide_busy(struct session *session, const struct wish *wish, const struct policy_rule *rule,
		const struct tally *tally, const struct overflow *overflow,
		struct failure *failure);
/*
 * As decide_admit(), with the limits of SETTINGS instead of RULE's, for callers to which not all of those
 * apply.
 */
int decide_admit_within(struct session *session, const struct wish *wish,
			const struct policy_rule *rule, const struct policy_settings *settings,
			struct tally *tally, bool pending, struct admitted *ret,
			struct failure *failure);
/*
 * Decides whether the id may connect. EARLY: before the address is resolved, when the known facts may not
 * suffice. SRC and DST, if not NULL, are addresses that the id does not have yet. Returns 0 or STATUS_DENIED.
 */
int decide_connect(struct id *id, bool early, const struct sockaddr *src,
		   const struct sockaddr *dst, struct policy_verdict *ret, struct failure *failure);
/*
 * Checks that something new may begin: 0, or STATUS_DRAINING while the broker is draining. VERB as in
 * "listen".
 */
int decide_may_begin(struct session *session, const char *verb, struct failure *failure);
