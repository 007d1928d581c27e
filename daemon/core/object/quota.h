/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the users of sessions can hold, and charges for it. One table has the words for each resource. */

#include "util/account.h"

struct failure;
struct session;

/* A user's limit of a resource, and what he holds of it. */
struct quota {
	const char *what; /* for people: "listeners" */
	const char *
		key; /* the key of rdmabrokerd.conf that sets the limit: "ListenersPerUser"; "": none does */
	uint64_t used;
	/* what the user can hold, if nobody else holds anything; can be less than the key says, see account.h */
	uint64_t limit; /* UINT64_MAX: none */
};

/* Sets *RET to the quota number I of the session's user, from 0. False: there are no more. */
bool quota_get(const struct session *session, size_t i, struct quota *ret);
/*
 * While a warn rule has admitted the session, so many times the limits of its user apply. Each charge above the limit itself is
 * reported (core.on_quota), as a refusal by a quota is.
 */
#define QUOTA_TIMES_WARNED 4

/*
 * Charges AMOUNT to the session's user. Returns 0, a negative errno, or STATUS_QUOTA if a limit is reached. FAILURE
 * then names the resource and, for the limit per user, its key.
 */
int quota_charge(struct session *session, struct charge *charge, enum account_slot slot,
		 uint64_t amount, struct failure *failure);
/* Returns STATUS_QUOTA, as quota_charge() does, if the user has more sessions than is his limit. */
int quota_check_sessions(struct session *session, struct failure *failure);
