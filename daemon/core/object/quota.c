/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>

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

/* Before policy has decided about the session, a warn rule can still do so. */
static bool is_warned(const struct session *session)
{
	return session->rule ? session->rule->warns :
			       policy_n_warn_rules(session->core->policy) > 0;
}

/* UINT64_MAX, as a limit: the one of all users together. */
static void report(struct session *session, const struct resource *resource, uint64_t limit,
		   bool refused)
{
	char text[64];

	if (limit == UINT64_MAX)
		snprintf(text, sizeof(text), "quota: all %s", resource->what);
	else if (*resource->key)
		snprintf(text, sizeof(text), "quota: %s=%llu", resource->key,
			 (unsigned long long)limit);
	else
		snprintf(text, sizeof(text), "quota: %llu %s", (unsigned long long)limit,
			 resource->what);
	if (session->core->on_quota)
		session->core->on_quota(session, text, refused);
	if (!refused)
		log_limited(
			session_log_limit_about(session, LOG_ABOUT_LIMIT), LOG_NOTICE,
			"Session %llu, uid %u: allowed with a warning to exceed the limit of %llu "
			"%s%s%s%s.",
			(unsigned long long)session->number, session->identity.uid,
			(unsigned long long)limit, resource->what, *resource->key ? " (" : "",
			resource->key, *resource->key ? "=)" : "");
}

static int refuse(struct session *session, const struct resource *resource, uint64_t limit,
		  struct failure *failure)
{
	bool is_half = limit < session->core->account.limit_per_user[resource->slot];
	const char *key = is_half ? "" : resource->key;

	report(session, resource, limit, /* refused= */ true);
	return failure_set(failure, STATUS_QUOTA, "uid %u is at its limit of %llu %s%s%s%s%s",
			   session->identity.uid, (unsigned long long)limit, resource->what,
			   is_half ? ", half of what the broker has" : "", *key ? " (" : "", key,
			   *key ? "=)" : "");
}

int quota_check_sessions(struct session *session, struct failure *failure)
{
	const struct account *account = &session->core->account;
	struct owner owner = session->identity.owner;
	uint64_t limit = account_get_limit(account, ACCOUNT_SESSIONS, owner);

	if (is_warned(session) || account_get_used(account, ACCOUNT_SESSIONS, owner) <= limit)
		return 0;
	return refuse(session, find(ACCOUNT_SESSIONS), limit, failure);
}

int quota_charge(struct session *session, struct charge *charge, enum account_slot slot,
		 uint64_t amount, struct failure *failure)
{
	struct account *account = &session->core->account;
	const struct resource *resource = find(slot);
	struct owner owner = session->identity.owner;
	uint64_t limit = account_get_limit(account, slot, owner);
	int r = account_charge(account, charge, slot, amount, owner);

	if (r == -EDQUOT && is_warned(session) &&
	    account_charge_times(account, charge, slot, amount, owner, QUOTA_TIMES_WARNED) == 0) {
		report(session, resource, limit, /* refused= */ false);
		return 0;
	}
	if (r == -EDQUOT)
		return refuse(session, resource, limit, failure);
	if (r != -EUSERS)
		return failure_errno(failure, r);
	report(session, resource, UINT64_MAX, /* refused= */ true);
	return failure_set(failure, STATUS_QUOTA, "the broker is at its limit of %llu %s",
			   (unsigned long long)account->limit[slot], resource->what);
}
