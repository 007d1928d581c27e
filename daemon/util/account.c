/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* If memory runs out, uthash does not add an element, and sets the element's hh.tbl to NULL. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "util/account.h"

struct account_user {
	UT_hash_handle hh; /* account.users */
	uid_t uid;
	unsigned n_charges;
	uint64_t used[_ACCOUNT_SLOT_MAX];
};

void account_init(struct account *account)
{
	*account = (struct account){ .own = geteuid() };
	for (unsigned i = 0; i < _ACCOUNT_SLOT_MAX; i++)
		account->limit[i] = account->limit_per_user[i] = UINT64_MAX;
}

void account_done(struct account *account)
{
	assert(!account->users);
	for (unsigned i = 0; i < _ACCOUNT_SLOT_MAX; i++)
		assert(account->used[i] == 0);
}

static struct account_user *user_find(const struct account *account, uid_t uid)
{
	struct account_user *user;

	HASH_FIND(hh, account->users, &uid, sizeof(uid), user);
	return user;
}

/* USED can exceed LIMIT: limits can be lowered at any time, and some charges ignore them. */
static bool fits(uint64_t used, uint64_t amount, uint64_t limit)
{
	return used <= limit && amount <= limit - used;
}

static bool is_reserved_for(const struct account *account, uid_t uid)
{
	return uid == 0 || uid == account->own;
}

static uint64_t limit_of_all(const struct account *account, enum account_slot slot, uid_t uid)
{
	uint64_t limit = account->limit[slot], reserve = account->reserve[slot];

	if (!is_reserved_for(account, uid))
		return limit;
	return reserve <= UINT64_MAX - limit ? limit + reserve : UINT64_MAX;
}

static int add(struct account *account, struct account_user *user, struct charge *charge,
	       enum account_slot slot, uint64_t amount, uid_t uid)
{
	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return -ENOMEM;
		user->uid = uid;
		HASH_ADD(hh, account->users, uid, sizeof(user->uid), user);
		if (!user->hh.tbl) {
			free(user);
			return -ENOMEM;
		}
	}
	user->n_charges++;
	*charge = (struct charge){ .account = account, .user = user, .slot = slot };
	charge_grow(charge, amount);
	return 0;
}

int account_charge(struct account *account, struct charge *charge, enum account_slot slot,
		   uint64_t amount, uid_t uid)
{
	struct account_user *user = user_find(account, uid);

	if (!fits(user ? user->used[slot] : 0, amount, account_get_limit(account, slot, uid)))
		return -EDQUOT;
	if (!fits(account->used[slot], amount, limit_of_all(account, slot, uid)))
		return -EUSERS;
	return add(account, user, charge, slot, amount, uid);
}

int account_add(struct account *account, struct charge *charge, enum account_slot slot,
		uint64_t amount, uid_t uid)
{
	return add(account, user_find(account, uid), charge, slot, amount, uid);
}

uint64_t account_get_limit(const struct account *account, enum account_slot slot, uid_t uid)
{
	uint64_t limit = account->limit_per_user[slot],
		 share = account->limit[slot] - account->limit[slot] / 2;

	return limit <= share || is_reserved_for(account, uid) ? limit : share;
}

bool account_is_full(const struct account *account, enum account_slot slot)
{
	return account->used[slot] >= limit_of_all(account, slot, account->own);
}

uint64_t account_get_used(const struct account *account, enum account_slot slot, uid_t uid)
{
	const struct account_user *user = user_find(account, uid);

	return user ? user->used[slot] : 0;
}

void charge_grow(struct charge *charge, uint64_t amount)
{
	charge->amount += amount;
	charge->user->used[charge->slot] += amount;
	charge->account->used[charge->slot] += amount;
}

void charge_done(struct charge *charge)
{
	struct account_user *user = charge->user;

	if (!charge->account)
		return;
	assert(user->used[charge->slot] >= charge->amount);
	user->used[charge->slot] -= charge->amount;
	charge->account->used[charge->slot] -= charge->amount;
	if (--user->n_charges == 0) {
		HASH_DEL(charge->account->users, user);
		free(user);
	}
	*charge = (struct charge){ 0 };
}
