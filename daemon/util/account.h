/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An account counts how much of each resource the users hold. A charge is embedded in the object that it pays
 * for; charge_done() gives the amount back. The account has an entry for a user while the user has at least
 * one charge. account_done() asserts that all charges were given back.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/list.h"

enum account_slot {
	ACCOUNT_SESSIONS,
	ACCOUNT_IDS,
	ACCOUNT_LISTENERS,
	ACCOUNT_BYTES, /* bytes queued for clients that do not read */
	ACCOUNT_FDS, /* descriptors held open for clients */
	_ACCOUNT_SLOT_MAX,
};

struct account_user {
	struct list link; /* account.users */
	uid_t uid;
	unsigned n_charges;
	uint64_t used[_ACCOUNT_SLOT_MAX];
};

struct account {
	struct list users; /* account_user.link */
	uint64_t limit_per_user[_ACCOUNT_SLOT_MAX];
	uint64_t limit[_ACCOUNT_SLOT_MAX]; /* limit for all users together; UINT64_MAX: none */
	uint64_t reserve[_ACCOUNT_SLOT_MAX]; /* added to LIMIT for root and for OWN */
	uid_t own; /* the uid that the daemon runs as */
	uint64_t used[_ACCOUNT_SLOT_MAX];
};

struct charge {
	struct account *account; /* NULL: nothing is charged */
	struct account_user *user;
	enum account_slot slot;
	uint64_t amount;
};

void account_init(struct account *account);
void account_done(struct account *account);

/*
 * Charges AMOUNT to UID. Returns 0; -EDQUOT: the limit of UID would be exceeded; -EUSERS: the limit of all
 * users together would be exceeded; -ENOMEM.
 */
int account_charge(struct account *account, struct charge *charge, enum account_slot slot,
		   uint64_t amount, uid_t uid);
/* As account_charge(), but ignores limits, for objects that exist already. Returns 0 or -ENOMEM. */
int account_add(struct account *account, struct charge *charge, enum account_slot slot,
		uint64_t amount, uid_t uid);
/* True if the limit of all users, including the reserve, is reached. */
bool account_is_full(const struct account *account, enum account_slot slot);
/* The amount that is charged to UID now. */
uint64_t account_get_used(const struct account *account, enum account_slot slot, uid_t uid);
void charge_grow(struct charge *charge, uint64_t amount); /* adds AMOUNT; ignores limits */
void charge_done(struct charge *charge); /* idempotent */
