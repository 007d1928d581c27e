/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Charges to a session's user. */

#include "util/account.h"

struct failure;
struct id;
struct session;

/*
 * Charges AMOUNT of WHAT ("ids") to the session's user. 0, a negative errno, or STATUS_QUOTA with a text that
 * names KEY ("IdsPerUser=") if the limit per user is reached.
 */
int quota_charge(struct session *session, struct charge *charge, enum account_slot slot,
		 uint64_t amount, const char *what, const char *key, struct failure *failure);
/* Likewise, for an id or one of its groups. */
int quota_charge_id(struct session *session, struct charge *charge, struct failure *failure);
