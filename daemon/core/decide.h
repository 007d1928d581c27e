/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Decisions about a session's policy requests, and the reports of these decisions in the journal and to the sessions
 * that watch. First a rule decides, then the limits of that rule: a policy request that the rule allows can still
 * exceed a limit.
 */

#include "core/admission.h"
#include "core/session.h"
#include "core/wish.h"
#include "policy/policy.h"

/* Decides about WISH, without counting or reporting the decision. */
void decide_ask(struct session *session, struct wish *wish, struct policy_verdict *ret);
/*
 * Decides as decide_ask() does. Besides, the decision is counted for its rule (or as one without a rule) and
 * reported to the sessions that watch. It is written to the journal if it rejects, or if its rule has "log"; a rate
 * limit can suppress that line. A deferred decision is neither counted nor reported. Nor is an early decision
 * (policy_question.early) that allows.
 */
void decide(struct session *session, struct wish *wish, struct policy_verdict *ret);
/*
 * Reports a decision as decide() does, but does not count it. VERDICT must be of the policy in force. VERDICT.reason
 * is reported too; NULL: none. OVERFLOW is the limit that refused the request although VERDICT allows it; NULL: no
 * limit did. A refusal by a limit is always written to the journal, like a rejection.
 */
void decide_audit(struct session *session, const struct wish *wish,
		  const struct policy_verdict *verdict, const struct overflow *overflow);
/*
 * Checks the limits of RULE, which allows the policy request WISH. TALLY is RULE's. PENDING as in tally_admit().
 * Returns 0: WISH counts towards the limits until admitted_done(RET); a negative errno; or STATUS_BUSY: a limit is
 * reached, and FAILURE has the reason and the time to retry.
 */
int decide_admit(struct session *session, const struct wish *wish, const struct policy_rule *rule,
		 struct tally *tally, bool pending, struct admitted *ret, struct failure *failure);
/*
 * Reports that a policy request is refused although RULE allows it, because the limit in OVERFLOW is reached. Fills
 * in FAILURE. TALLY is RULE's. Returns STATUS_BUSY.
 */
int decide_busy(struct session *session, const struct wish *wish, const struct policy_rule *rule,
		const struct tally *tally, const struct overflow *overflow,
		struct failure *failure);
/*
 * As decide_admit(), with the limits in SETTINGS instead of RULE's own: for callers to which some of RULE's
 * limits do not apply.
 */
int decide_admit_within(struct session *session, const struct wish *wish,
			const struct policy_rule *rule, const struct policy_settings *settings,
			struct tally *tally, bool pending, struct admitted *ret,
			struct failure *failure);
/*
 * Decides whether the id is allowed to connect. EARLY: the address is not resolved yet, so the known facts may not
 * suffice, and the decision can be deferred. SRC and DST are the addresses to decide about; for NULL, the address
 * that the id has now is used. Returns 0 or, if the decision rejects, STATUS_DENIED.
 */
int decide_connect(struct id *id, bool early, const struct sockaddr *src,
		   const struct sockaddr *dst, struct policy_verdict *ret, struct failure *failure);
/*
 * Checks that the client is allowed to begin something new. Returns 0, or STATUS_DRAINING while the broker is
 * draining. VERB is for messages ("listen").
 */
int decide_may_begin(struct session *session, const char *verb, struct failure *failure);
