/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The decision that has allowed an id, and what the id counts for in the limits of its rule. */

#include "core/facts/admission.h"

struct policy;
struct policy_rule;

struct grant {
	struct policy *policy; /* of RULE; NULL: policy decides at the id's next step */
	const struct policy_rule *rule;
	struct tally *tally; /* of RULE */
	uint16_t path_pkey; /* route.path_pkey, when it was decided: a path can be set afterwards */
	/* the admission of the listener, connection or connection request */
	struct admitted admitted;
};

void grant_done(struct grant *grant);
void grant_set(struct grant *grant, struct policy *policy, const struct policy_rule *rule,
	       struct tally *tally);
/* Policy decides again at the id's next step. The admission stays. */
void grant_forget(struct grant *grant);
/* UID: the user of the new owner. */
void grant_move(struct grant *to, struct grant *from, uid_t owner);
