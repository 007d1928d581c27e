/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "util/account.h"
#include "util/keyed.h"

/* An owner, by his uid, or a range with many owners, by owner_group(). */
struct account_user {
	struct keyed keyed; /* account.users; each charge has a reference */
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

static int get_both(struct account *account, struct owner owner, struct charge *ret)
{
	struct account_user *user = keyed_get(&account->users, owner.uid, sizeof(*user));
	struct account_user *range = NULL;

	if (user && owner.range != OWNER_ALONE) {
		range = keyed_get(&account->users, owner_group(owner), sizeof(*range));
		if (!range)
			keyed_put(user);
	}
	if (!user || (owner.range != OWNER_ALONE && !range))
		return -ENOMEM;
	*ret = (struct charge){ .account = account, .user = user, .range = range };
	return 0;
}

static void put_both(const struct charge *charge)
{
	keyed_put(charge->user);
	if (charge->range)
		keyed_put(charge->range);
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

static uint64_t limit_of(const struct account *account, enum account_slot slot, struct owner owner,
			 unsigned times)
{
	uint64_t limit = account->limit_per_user[slot], share = share_of(account, slot);

	limit = limit <= UINT64_MAX / times ? limit * times : UINT64_MAX;
	return limit <= share || is_reserved_for(account, owner.uid) ? limit : share;
}

static int check(const struct charge *charge, enum account_slot slot, uint64_t amount,
		 struct owner owner, unsigned times)
{
	const struct account *account = charge->account;

	if (!fits(charge->user->used[slot], amount, limit_of(account, slot, owner, times)))
		return -EDQUOT;
	if (times > 1 &&
	    !fits(account->used[slot], amount, account->limit[slot] - account->limit[slot] / 4))
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
	return account_charge_times(account, charge, slot, amount, owner, 1);
}

int account_charge_times(struct account *account, struct charge *charge, enum account_slot slot,
			 uint64_t amount, struct owner owner, unsigned times)
{
	struct charge new;
	int r = get_both(account, owner, &new);

	if (r < 0)
		return r;
	r = check(&new, slot, amount, owner, times);
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
	return limit_of(account, slot, owner, 1);
}

bool account_is_full(const struct account *account, enum account_slot slot)
{
	return account->used[slot] >= limit_of_all(account, slot, account->own);
}

static uint64_t used_by(const struct account *account, enum account_slot slot, uint64_t key)
{
	const struct account_user *user = keyed_find(account->users, key);

	return user ? user->used[slot] : 0;
}

uint64_t account_get_used(const struct account *account, enum account_slot slot, struct owner owner)
{
	return used_by(account, slot, owner.uid);
}

uint64_t account_get_group_used(const struct account *account, enum account_slot slot,
				struct owner owner)
{
	return used_by(account, slot, owner_group(owner));
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
