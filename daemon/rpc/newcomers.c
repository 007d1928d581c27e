/* SPDX-License-Identifier: BSD-2-Clause */
#include "rpc/newcomers.h"

void newcomers_init(struct newcomers *newcomers)
{
	*newcomers = (struct newcomers){ 0 };
	list_init(&newcomers->places);
	account_init(&newcomers->account);
}

void newcomers_done(struct newcomers *newcomers)
{
	account_done(&newcomers->account);
}

/*
 * False: the owner is root or the daemon's own user. Their clients do not count towards NEWCOMERS_MAX, and are not dropped
 * because of it.
 */
static bool counts(const struct newcomers *newcomers, struct owner owner)
{
	return owner_group(owner) != 0 && owner_group(owner) != newcomers->account.own;
}

int newcomers_enter(struct newcomers *newcomers, struct newcomers_place *place, struct owner owner)
{
	int r = account_add(&newcomers->account, &place->charge, ACCOUNT_SESSIONS, 1, owner);

	if (r < 0)
		return r;
	newcomers->n += counts(newcomers, owner);
	place->newcomers = newcomers;
	place->owner = owner;
	list_insert(&newcomers->places, &place->link);
	return 0;
}

void newcomers_leave(struct newcomers_place *place)
{
	if (!place->newcomers)
		return;
	list_remove(&place->link);
	charge_done(&place->charge);
	place->newcomers->n -= counts(place->newcomers, place->owner);
	place->newcomers = NULL;
}

unsigned newcomers_count(const struct newcomers *newcomers, struct owner owner)
{
	return (unsigned)account_get_group_used(&newcomers->account, ACCOUNT_SESSIONS, owner);
}

/* Of the owners who count as one with OWNER, the one with most lets his oldest client go. */
static struct newcomers_place *oldest_of(struct newcomers *newcomers, struct owner owner)
{
	struct newcomers_place *oldest = NULL;
	uint64_t most = 0;
	struct list *l;

	list_for_each(l, &newcomers->places) {
		struct newcomers_place *place = container_of(l, struct newcomers_place, link);
		uint64_t n = account_get_used(&newcomers->account, ACCOUNT_SESSIONS, place->owner);

		if (owner_group(place->owner) == owner_group(owner) && n > most) {
			oldest = place;
			most = n;
		}
	}
	return oldest;
}

struct newcomers_place *newcomers_surplus(struct newcomers *newcomers)
{
	struct newcomers_place *last =
		container_of(newcomers->places.prev, struct newcomers_place, link);
	struct owner with_most = { 0 };
	unsigned most = 0;
	struct list *l;

	/* Only the user of the client that came last can have got too many by it. */
	if (!list_is_empty(&newcomers->places) &&
	    newcomers_count(newcomers, last->owner) > NEWCOMERS_PER_USER)
		return oldest_of(newcomers, last->owner);
	if (newcomers->n <= NEWCOMERS_MAX)
		return NULL;
	list_for_each(l, &newcomers->places) {
		struct owner owner = container_of(l, struct newcomers_place, link)->owner;
		unsigned n = newcomers_count(newcomers, owner);

		if (counts(newcomers, owner) && n > most) {
			with_most = owner;
			most = n;
		}
	}
	return oldest_of(newcomers, with_most);
}
