/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Decisions about a session's policy requests, and their reports in the journal. First the rule decides, then
 * the rule's limits: a policy request that is allowed may still exceed a limit.
 */

#include "core/admission.h"
#include "core/session.h"
#include "policy/policy.h"
#include "proto/addr.h"

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
 * Returns 0, a negative errno, or STATUS_BUSY: then session.failure has the reason, and the time to retry.
 */
int decide_admit(struct session *session, const struct wish *wish, const struct policy_rule *rule,
		 struct tally *tally, bool pending, struct admitted *ret);
/*
 * Refuses what RULE, whose tally is TALLY, allows, because the limit in OVERFLOW is reached. Returns
 * STATUS_BUSY.
 */
int decide_busy(struct session *session, const struct wish *wish, const struct policy_rule *rule,
		const struct tally *tally, const struct overflow *overflow);
/*
 * As decide_admit(), with the limits of SETTINGS instead of RULE's, for callers to which not all of those
 * apply.
 */
int decide_admit_within(struct session *session, const struct wish *wish,
			const struct policy_rule *rule, const struct policy_settings *settings,
			struct tally *tally, bool pending, struct admitted *ret);
