/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* If memory runs out, uthash does not add an element, and sets the element's hh.tbl to NULL. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "util/account.h"
#include "util/owner.h"

/* Added to the first uid of a range, to tell its key from that of an owner. */
#define RANGE (UINT64_C(1) << 32)

/* An owner, or a range of subordinate uids with many owners. */
struct account_user {
	UT_hash_handle hh; /* account.users */
	uint64_t key; /* the uid, or that of the range with RANGE */
	unsigned n_charges; /* and, of a range, owners */
	struct account_user *range; /* NULL: the owner is in none */
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
	if (user->range)
		put(account, user->range);
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

/* As get(), for the owner UID and his range. */
static struct account_user *get_owner(struct account *account, uid_t uid)
{
	struct account_user *user = get(account, uid);
	uid_t first;

	if (!user || user->range || !owner_has_range(uid, &first))
		return user;
	user->range = get(account, RANGE | first);
	if (user->range)
		return user;
	put(account, user);
	return NULL;
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

static int add(struct account *account, struct charge *charge, enum account_slot slot,
	       uint64_t amount, struct account_user *user)
{
	*charge = (struct charge){
		.account = account, .user = user, .range = user->range, .slot = slot
	};
	charge_grow(charge, amount);
	return 0;
}

static int check(const struct account *account, const struct account_user *user,
		 enum account_slot slot, uint64_t amount, uid_t uid)
{
	if (!fits(user->used[slot], amount, account_get_limit(account, slot, uid)))
		return -EDQUOT;
	/* What an owner held before he was in a range is not in the range's sum. */
	if (user->range && !fits(user->range->used[slot], amount, share_of(account, slot)))
		return -EDQUOT;
	if (!fits(account->used[slot], amount, limit_of_all(account, slot, uid)))
		return -EUSERS;
	return 0;
}

int account_charge(struct account *account, struct charge *charge, enum account_slot slot,
		   uint64_t amount, uid_t uid)
{
	struct account_user *user = get_owner(account, owner_of(uid));
	int r;

	if (!user)
		return -ENOMEM;
	r = check(account, user, slot, amount, uid);
	if (r == 0)
		return add(account, charge, slot, amount, user);
	put(account, user);
	return r;
}

int account_add(struct account *account, struct charge *charge, enum account_slot slot,
		uint64_t amount, uid_t uid)
{
	struct account_user *user = get_owner(account, owner_of(uid));

	return user ? add(account, charge, slot, amount, user) : -ENOMEM;
}

uint64_t account_get_limit(const struct account *account, enum account_slot slot, uid_t uid)
{
	uint64_t limit = account->limit_per_user[slot], share = share_of(account, slot);

	return limit <= share || is_reserved_for(account, uid) ? limit : share;
}

bool account_is_full(const struct account *account, enum account_slot slot)
{
	return account->used[slot] >= limit_of_all(account, slot, account->own);
}

uint64_t account_get_used(const struct account *account, enum account_slot slot, uid_t uid)
{
	const struct account_user *user = find(account, owner_of(uid));

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
	put(charge->account, user);
	*charge = (struct charge){ 0 };
}
