/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An account counts how much of each resource each owner holds, see util/owner.h. A charge is embedded in the object that
 * it pays for; charge_done() gives the amount back. account_done() asserts that all charges were given back.
 *
 * Of what there is for all together, an owner can hold no more than half, and neither can all owners of one range
 * together. Root and the daemon's own user are not limited by that.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/owner.h"

enum account_slot {
	ACCOUNT_SESSIONS,
	ACCOUNT_IDS,
	ACCOUNT_LEASES,
	ACCOUNT_LISTENERS,
	ACCOUNT_BYTES, /* queued for clients that do not read */
	ACCOUNT_FDS, /* held open for clients */
	ACCOUNT_INQUIRIES, /* peers that another host is being asked about */
	ACCOUNT_WATCHES,
	ACCOUNT_PACKETS, /* rows of the ledger for packets that a client has not read */
	_ACCOUNT_SLOT_MAX,
};

struct account_user;
struct keyed;

struct account {
	struct keyed *users; /* owners and ranges */
	uint64_t limit_per_user[_ACCOUNT_SLOT_MAX]; /* of each owner */
	uint64_t limit[_ACCOUNT_SLOT_MAX]; /* for all users together; UINT64_MAX: none */
	uint64_t reserve[_ACCOUNT_SLOT_MAX]; /* added to LIMIT for root and OWN */
	uid_t own; /* the uid that the daemon runs as */
	uint64_t used[_ACCOUNT_SLOT_MAX];
};

struct charge {
	struct account *account; /* NULL: nothing is charged */
	struct account_user *user; /* the owner */
	struct account_user *range; /* NULL: none */
	enum account_slot slot;
	uint64_t amount;
};

void account_init(struct account *account);
void account_done(struct account *account);

/*
 * Charges AMOUNT to OWNER. Returns 0; -EDQUOT: over the limit of the owner, or of the range; -EUSERS: over
 * the limit of all users; or -ENOMEM.
 */
int account_charge(struct account *account, struct charge *charge, enum account_slot slot,
		   uint64_t amount, struct owner owner);
/*
 * As account_charge(), but the limit of each owner is TIMES as high, where that leaves a quarter of what there is for all
 * to others. An owner or a range still has no more than half.
 */
int account_charge_times(struct account *account, struct charge *charge, enum account_slot slot,
			 uint64_t amount, struct owner owner, unsigned times);
/* As account_charge(), but ignores limits. */
int account_add(struct account *account, struct charge *charge, enum account_slot slot,
		uint64_t amount, struct owner owner);
/* What OWNER can hold of SLOT, if nobody else holds anything. */
uint64_t account_get_limit(const struct account *account, enum account_slot slot,
			   struct owner owner);
/* True if the limit of all users and the reserve are used up. */
bool account_is_full(const struct account *account, enum account_slot slot);
uint64_t account_get_used(const struct account *account, enum account_slot slot,
			  struct owner owner);
/* The same of all owners of OWNER's range together, or of OWNER if he is alone. */
uint64_t account_get_group_used(const struct account *account, enum account_slot slot,
				struct owner owner);
void charge_grow(struct charge *charge, uint64_t amount); /* ignores limits */
void charge_done(struct charge *charge); /* idempotent */
