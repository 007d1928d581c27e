/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "core/object/grant.h"
#include "util/util.h"

void grant_set(struct grant *grant, struct policy *policy, const struct policy_rule *rule,
	       struct tally *tally)
{
	/* The old references can be the last ones to the same objects. */
	policy_ref(policy);
	tally_ref(tally);
	grant_forget(grant);
	grant->policy = policy;
	grant->rule = rule;
	grant->tally = tally;
}

void grant_forget(struct grant *grant)
{
	grant->policy = policy_unref(grant->policy);
	grant->rule = NULL;
	grant->tally = tally_unref(grant->tally);
}

void grant_move(struct grant *to, struct grant *from, uid_t owner)
{
	to->policy = TAKE_PTR(from->policy);
	to->rule = TAKE_PTR(from->rule);
	to->tally = TAKE_PTR(from->tally);
	to->path_pkey = from->path_pkey;
	admitted_move(&from->admitted, &to->admitted, owner);
}

void grant_done(struct grant *grant)
{
	admitted_done(&grant->admitted);
	grant_forget(grant);
}
