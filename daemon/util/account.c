/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* If memory runs out, uthash does not add an element, and sets the element's hh.tbl to NULL. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "util/account.h"

/* An owner, or a range with many owners. */
struct account_user {
	UT_hash_handle hh; /* account.users */
	uint64_t key; /* the owner's uid, or owner_group() of the range */
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

static struct account_user *find(const struct account *account, uint64_t key)
{
	struct account_user *user;

	HASH_FIND(hh, account->users, &key, sizeof(key), user);
	return user;
}

static void put(struct account *account, struct account_user *user)
{
	if (--user->n_charges > 0)
		return;
	HASH_DEL(account->users, user);
	free(user);
}

/* Gets a reference, as each charge has one. NULL: there is no memory. */
static struct account_user *get(struct account *account, uint64_t key)
{
	struct account_user *user = find(account, key);

	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->key = key;
		HASH_ADD(hh, account->users, key, sizeof(user->key), user);
		if (!user->hh.tbl) {
			free(user);
			return NULL;
		}
	}
	user->n_charges++;
	return user;
}

static int get_both(struct account *account, struct owner owner, struct charge *ret)
{
	struct account_user *user = get(account, owner.uid), *range = NULL;

	if (user && owner.range != OWNER_ALONE)
		range = get(account, owner_group(owner));
	if (user && !range && owner.range != OWNER_ALONE) {
		put(account, user);
		return -ENOMEM;
	}
	*ret = (struct charge){ .account = account, .user = user, .range = range };
	return user ? 0 : -ENOMEM;
}

static void put_both(struct charge *charge)
{
	put(charge->account, charge->user);
	if (charge->range)
		put(charge->account, charge->range);
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

static uint64_t share_of(const struct account *account, enum account_slot slot)
{
	return account->limit[slot] - account->limit[slot] / 2;
}

static int check(const struct charge *charge, enum account_slot slot, uint64_t amount,
		 struct owner owner)
{
	const struct account *account = charge->account;

	if (!fits(charge->user->used[slot], amount, account_get_limit(account, slot, owner)))
		return -EDQUOT;
	/* What an owner held before he was in a range is not in the range's sum. */
	if (charge->range && !fits(charge->range->used[slot], amount, share_of(account, slot)))
		return -EDQUOT;
	if (!fits(account->used[slot], amount, limit_of_all(account, slot, owner.uid)))
		return -EUSERS;
	return 0;
}

static void set(struct charge *charge, const struct charge *new, enum account_slot slot,
		uint64_t amount)
{
	*charge = *new;
	charge->slot = slot;
	charge_grow(charge, amount);
}

int account_charge(struct account *account, struct charge *charge, enum account_slot slot,
		   uint64_t amount, struct owner owner)
{
	struct charge new;
	int r = get_both(account, owner, &new);

	if (r < 0)
		return r;
	r = check(&new, slot, amount, owner);
	if (r == 0)
		set(charge, &new, slot, amount);
	else
		put_both(&new);
	return r;
}

int account_add(struct account *account, struct charge *charge, enum account_slot slot,
		uint64_t amount, struct owner owner)
{
	struct charge new;
	int r = get_both(account, owner, &new);

	if (r == 0)
		set(charge, &new, slot, amount);
	return r;
}

uint64_t account_get_limit(const struct account *account, enum account_slot slot,
			   struct owner owner)
{
	uint64_t limit = account->limit_per_user[slot], share = share_of(account, slot);

	return limit <= share || is_reserved_for(account, owner.uid) ? limit : share;
}

bool account_is_full(const struct account *account, enum account_slot slot)
{
	return account->used[slot] >= limit_of_all(account, slot, account->own);
}

uint64_t account_get_used(const struct account *account, enum account_slot slot, struct owner owner)
{
	const struct account_user *user = find(account, owner.uid);

	return user ? user->used[slot] : 0;
}

void charge_grow(struct charge *charge, uint64_t amount)
{
	charge->amount += amount;
	charge->user->used[charge->slot] += amount;
	if (charge->range)
		charge->range->used[charge->slot] += amount;
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
	if (charge->range)
		charge->range->used[charge->slot] -= charge->amount;
	put_both(charge);
	*charge = (struct charge){ 0 };
}
