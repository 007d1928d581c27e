/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "core/object/quota.h"
#include "core/object/session.h"
#include "util/util.h"

/* The resources of which users are told: what they hold, and what refuses them. */
static const struct resource {
	enum account_slot slot;
	const char *what, *key;
} resources[] = {
	{ ACCOUNT_SESSIONS, "sessions", "SessionsPerUser" },
	{ ACCOUNT_IDS, "ids and groups", "IdsPerUser" },
	{ ACCOUNT_LEASES, "leases", "" },
	{ ACCOUNT_LISTENERS, "listeners", "ListenersPerUser" },
	{ ACCOUNT_FDS, "descriptors", "DescriptorsPerUser" },
	{ ACCOUNT_BYTES, "queued bytes", "QueuedBytesPerUser" },
	{ ACCOUNT_WATCHES, "watches", "" },
	{ ACCOUNT_INQUIRIES, "peers that are being asked about", "" },
};

static const struct resource *find(enum account_slot slot)
{
	for (size_t i = 0; i < ELEMENTS_OF(resources); i++)
		if (resources[i].slot == slot)
			return &resources[i];
	return NULL;
}

bool quota_get(const struct session *session, size_t i, struct quota *ret)
{
	const struct account *account = &session->core->account;
	struct owner owner = session->identity.owner;

	if (i >= ELEMENTS_OF(resources))
		return false;
	*ret = (struct quota){
		.what = resources[i].what,
		.key = resources[i].key,
		.used = account_get_used(account, resources[i].slot, owner),
		.limit = account_get_limit(account, resources[i].slot, owner),
	};
	return true;
}

int quota_charge(struct session *session, struct charge *charge, enum account_slot slot,
		 uint64_t amount, struct failure *failure)
{
	struct account *account = &session->core->account;
	const struct resource *resource = find(slot);
	uid_t uid = session->identity.uid;
	struct owner owner = session->identity.owner;
	uint64_t limit = account_get_limit(account, slot, owner);
	int r = account_charge(account, charge, slot, amount, owner);

	if (r == -EDQUOT && limit < account->limit_per_user[slot])
		return failure_set(failure, STATUS_QUOTA,
				   "uid %u is at its limit of %llu %s, half of what the broker has",
				   uid, (unsigned long long)limit, resource->what);
	if (r == -EDQUOT)
		return failure_set(failure, STATUS_QUOTA, "uid %u is at its limit of %llu %s%s%s%s",
				   uid, (unsigned long long)limit, resource->what,
				   *resource->key ? " (" : "", resource->key,
				   *resource->key ? "=)" : "");
	if (r == -EUSERS)
		return failure_set(failure, STATUS_QUOTA, "the broker is at its limit of %llu %s",
				   (unsigned long long)account->limit[slot], resource->what);
	return failure_errno(failure, r);
}
