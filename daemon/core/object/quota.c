/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "core/object/session.h"
#include "core/object/quota.h"

int quota_charge(struct session *session, struct charge *charge, enum account_slot slot,
		 uint64_t amount, const char *what, const char *key, struct failure *failure)
{
	struct account *account = &session->core->account;
	uid_t uid = session->identity.uid;
	uint64_t limit = account_get_limit(account, slot, uid);
	int r = account_charge(account, charge, slot, amount, uid);

	if (r == -EDQUOT && limit < account->limit_per_user[slot])
		return failure_set(failure, STATUS_QUOTA,
				   "uid %u is at its limit of %llu %s, half of what the broker has",
				   uid, (unsigned long long)limit, what);
	if (r == -EDQUOT)
		return failure_set(failure, STATUS_QUOTA, "uid %u is at its limit of %llu %s (%s)",
				   uid, (unsigned long long)limit, what, key);
	if (r == -EUSERS)
		return failure_set(failure, STATUS_QUOTA, "the broker is at its limit of %llu %s",
				   (unsigned long long)account->limit[slot], what);
	return failure_errno(failure, r);
}

int quota_charge_id(struct session *session, struct charge *charge, struct failure *failure)
{
	return quota_charge(session, charge, ACCOUNT_IDS, 1, "ids and groups",
			    "IdsPerUser=", failure);
}
