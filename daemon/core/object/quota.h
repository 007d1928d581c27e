/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Charges for a session's user. */

#include "util/account.h"

struct failure;
struct id;
struct session;

/*
 * Charges AMOUNT of WHAT ("ids") to the session's user. Returns 0, a negative errno, or STATUS_QUOTA if a
 * limit is reached. For the limit per user, FAILURE names the setting KEY ("IdsPerUser=").
 */
int quota_charge(struct session *session, struct charge *charge, enum account_slot slot,
		 uint64_t amount, const char *what, const char *key, struct failure *failure);
/* As quota_charge(), for one id or one multicast group. */
int quota_charge_id(struct session *session, struct charge *charge, struct failure *failure);
