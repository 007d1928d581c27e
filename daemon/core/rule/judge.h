/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What a policy says about sessions, ids, leases and groups that exist already. Nothing is counted, reported or changed. */

#include <stdbool.h>

#include "core/admit/intent.h"

struct failure;
struct id;
struct session;

struct judgement {
	struct id_intent intent;
	struct policy_verdict verdict;
};

/* POLICY NULL: the one in force. True: it allows it, or has nothing to decide. */
bool judge_session(struct judgement *ret, struct session *session, struct policy *policy);
bool judge_id(struct judgement *ret, struct id *id, struct policy *policy);
/* As the two, with the session's leases and the id's groups too. False: WHY says what the policy does not allow. */
bool judge_all_of_session(struct session *session, struct policy *policy, struct failure *why);
bool judge_all_of_id(struct id *id, struct policy *policy, struct failure *why);
