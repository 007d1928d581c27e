/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What policy says to a session's wishes, and what is written down of it. First the rule decides, then
 * the rule's limits: a wish that is allowed may be too much for now.
 */

#include "core/admission.h"
#include "core/session.h"
#include "policy/policy.h"
#include "proto/addr.h"

/* What is asked for, in words for the journal: "listen on", "10.9.0.1:7471". */
struct wish {
	struct policy_question question; /* its identity is filled in here */
	const char *what;
	const char *object; /* NULL: the addresses are it */
	const struct sockaddr *addrs[2]; /* "A", or "A to B"; NULL: none */
	const struct id *id; /* that it is about, the listener where a request comes; NULL: none */
};

/* Made where it is wanted, for most decisions are not written down. BUF may be what is returned. */
#define WISH_OBJECT_LEN (2 * ADDR_STRLEN + 4)
const char *wish_object(const struct wish *wish, char buf[WISH_OBJECT_LEN]);

/* The answer, neither counted nor written down. */
void decide_ask(struct session *session, struct wish *wish, struct policy_verdict *ret);
/*
 * The same, counted for its rule, told to who watches, and written to the journal where it is a refusal or
 * the rule says so.
 * An answer that is deferred is neither.
 */
void decide(struct session *session, struct wish *wish, struct policy_verdict *ret);
/*
 * To who watches, and to the journal where it is worth it. VERDICT is of the policy in force. OVERFLOW may
 * be NULL.
 */
void decide_audit(struct session *session, const struct wish *wish,
		  const struct policy_verdict *verdict, const struct overflow *overflow);
/*
 * Whether RULE, which allows, does so now. PENDING as in tally_admit(). Returns 0, a negative errno, or
 * STATUS_BUSY: then session.failure says why, and when to come again.
 */
int decide_admit(struct session *session, const struct wish *wish, const struct policy_rule *rule,
		 struct tally *tally, bool pending, struct admitted *ret);
/* RULE, whose tally is TALLY, allows it, and it is too much for now, as OVERFLOW says: STATUS_BUSY. */
int decide_busy(struct session *session, const struct wish *wish, const struct policy_rule *rule,
		const struct tally *tally, const struct overflow *overflow);
/* As decide_admit(), with SETTINGS instead of RULE's: where not all of its limits are asked. */
int decide_admit_within(struct session *session, const struct wish *wish,
			const struct policy_rule *rule, const struct policy_settings *settings,
			struct tally *tally, bool pending, struct admitted *ret);
