/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Decisions about policy requests, and their reports to the journal and to the sessions that watch. First a rule
 * decides. The limits of a rule that allows can still refuse the request (decide_admit()).
 */

#include "core/admit/intent.h"
#include "core/facts/admission.h"
#include "core/object/session.h"
#include "policy/policy.h"
#include "proto/status.h"

/* What policy decides about INTENT, without the session's restriction. The decision is neither counted nor reported. */
void decide_ask_policy(struct session *session, struct intent *intent, struct policy_verdict *ret);
/* Decides about INTENT, by policy and restriction, without counting or reporting the decision. */
void decide_ask(struct session *session, struct intent *intent, struct policy_verdict *ret);
/*
 * Decides about INTENT, and counts and reports the decision. The journal gets the decision only if it rejects, or if
 * its rule has "log". POLICY_ASK, a deferred decision, or an early one (policy_question.early) that allows, is neither
 * counted nor reported.
 */
void decide(struct session *session, struct intent *intent, struct policy_verdict *ret);
/*
 * Reports a decision as decide() does, without counting it. VERDICT must be of the policy in force. OVERFLOW is the
 * limit that refused a request which VERDICT allows; NULL: none.
 */
void decide_audit(struct session *session, const struct intent *intent,
		  const struct policy_verdict *verdict, const struct overflow *overflow);
/*
 * Checks the limits of RULE, which allows INTENT, and is of the policy in force. PENDING as in tally_admit(). Returns
 * 0: INTENT counts towards the limits until admitted_done(RET); STATUS_BUSY: a limit is reached; or a negative errno.
 */
int decide_admit(struct session *session, const struct intent *intent,
		 const struct policy_rule *rule, bool pending, struct admitted *ret,
		 struct failure *failure);
/* Refuses INTENT, which RULE allows, because the limit in OVERFLOW is reached. Returns STATUS_BUSY. */
int decide_busy(struct session *session, const struct intent *intent,
		const struct policy_rule *rule, const struct overflow *overflow,
		struct failure *failure);
/* As decide_admit(), with the limits in SETTINGS instead of RULE's. */
int decide_admit_within(struct session *session, const struct intent *intent,
			const struct policy_rule *rule, const struct policy_settings *settings,
			bool pending, struct admitted *ret, struct failure *failure);
/*
 * Counts what a previous process has admitted: no rate applies, and if a limit of RULE is reached, it is not counted.
 * For PENDING see decide_admit().
 */
void decide_admit_again(struct session *session, const struct intent *intent,
			const struct policy_rule *rule, bool pending, struct admitted *ret);
/* Refuses INTENT, as VERDICT does: "uid 7 may not connect to 10.9.0.1:7471". Returns STATUS_DENIED. */
int decide_deny(const struct session *session, const struct intent *intent,
		const struct policy_verdict *verdict, struct failure *failure);
/*
 * Decides whether the id is allowed to connect. EARLY: the address is not resolved yet, so the known facts may not
 * suffice, and the decision can be deferred. SRC and DST are the addresses to decide about; for NULL, the address
 * that the id has now is used. Returns 0 or, if the decision rejects, STATUS_DENIED.
 */
int decide_connect(struct id *id, bool early, const struct sockaddr *src,
		   const struct sockaddr *dst, struct policy_verdict *ret, struct failure *failure);
/* The code for a peer whose request VERDICT rejects. */
enum refusal_code decide_refusal_code(const struct policy_verdict *verdict);
/* Returns 0 or, while the broker is draining, STATUS_DRAINING. VERB is for messages ("listen"). */
int decide_may_begin(struct session *session, const char *verb, struct failure *failure);
