/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/account.h"

void account_init(struct account *account)
{
	*account = (struct account){ .own = geteuid() };
	list_init(&account->users);
	for (unsigned i = 0; i < _ACCOUNT_SLOT_MAX; i++)
		account->limit[i] = account->limit_per_user[i] = UINT64_MAX;
}

void account_done(struct account *account)
{
	assert(list_is_empty(&account->users));
	for (unsigned i = 0; i < _ACCOUNT_SLOT_MAX; i++)
		assert(account->used[i] == 0);
}

/* A list suffices, because few users of a host use RDMA at a time. */
static struct account_user *user_find(struct account *account, uid_t uid)
{
	struct list *l;

	list_for_each(l, &account->users) {
		struct account_user *user = container_of(l, struct account_user, link);

		if (user->uid == uid) {
			list_remove(&user->link);
			list_insert(account->users.next, &user->link);
			return user;
		}
	}
	return NULL;
}

/* USED can exceed LIMIT: limits can be lowered at any time, and some charges ignore them. */
static bool fits(uint64_t used, uint64_t amount, uint64_t limit)
{
	return used <= limit && amount <= limit - used;
}

static uint64_t limit_of_all(const struct account *account, enum account_slot slot, uid_t uid)
{
	uint64_t limit = account->limit[slot], reserve = account->reserve[slot];

	if (uid != 0 && uid != account->own)
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
		list_insert(&account->users, &user->link);
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

	if (!fits(account->used[slot], amount, limit_of_all(account, slot, uid)))
		return -EUSERS;
	if (!fits(user ? user->used[slot] : 0, amount, account->limit_per_user[slot]))
		return -EDQUOT;
	return add(account, user, charge, slot, amount, uid);
}

int account_add(struct account *account, struct charge *charge, enum account_slot slot,
		uint64_t amount, uid_t uid)
{
	return add(account, user_find(account, uid), charge, slot, amount, uid);
}

bool account_is_full(const struct account *account, enum account_slot slot)
{
	return account->used[slot] >= limit_of_all(account, slot, account->own);
}

uint64_t account_get_used(const struct account *account, enum account_slot slot, uid_t uid)
{
	struct list *l;

	list_for_each(l, &account->users) {
		const struct account_user *user = container_of(l, struct account_user, link);

		if (user->uid == uid)
			return user->used[slot];
	}
	return 0;
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
		list_remove(&user->link);
		free(user);
	}
	*charge = (struct charge){ 0 };
}
