/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "rpc/newcomers.h"

struct newcomers_user {
	struct list link; /* newcomers.users */
	struct list places; /* newcomers_place.link */
	uid_t uid;
	unsigned n;
};

void newcomers_init(struct newcomers *newcomers)
{
	*newcomers = (struct newcomers){ .own = geteuid() };
	list_init(&newcomers->users);
}

void newcomers_done(struct newcomers *newcomers)
{
	assert(list_is_empty(&newcomers->users));
}

/*
 * False: USER is root or the daemon's own user. Their clients do not count towards NEWCOMERS_MAX, and are not dropped
 * because of it.
 */
static bool counts(const struct newcomers *newcomers, const struct newcomers_user *user)
{
	return user->uid != 0 && user->uid != newcomers->own;
}

/* A list suffices, because there are no more users than places. */
static struct newcomers_user *find_user(struct newcomers *newcomers, uid_t uid)
{
	struct list *l;

	list_for_each(l, &newcomers->users) {
		struct newcomers_user *user = container_of(l, struct newcomers_user, link);

		if (user->uid == uid)
			return user;
	}
	return NULL;
}

int newcomers_enter(struct newcomers *newcomers, struct newcomers_place *place, uid_t uid)
{
	struct newcomers_user *user = find_user(newcomers, uid);

	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return -ENOMEM;
		user->uid = uid;
		list_init(&user->places);
		list_insert(&newcomers->users, &user->link);
	}
	user->n++;
	newcomers->n += counts(newcomers, user);
	place->newcomers = newcomers;
	place->user = user;
	list_insert(&user->places, &place->link);
	return 0;
}

void newcomers_leave(struct newcomers_place *place)
{
	struct newcomers_user *user = place->user;

	if (!user)
		return;
	list_remove(&place->link);
	place->newcomers->n -= counts(place->newcomers, user);
	place->user = NULL;
	if (--user->n > 0)
		return;
	list_remove(&user->link);
	free(user);
}

static struct newcomers_place *oldest_of(struct newcomers_user *user)
{
	return container_of(list_first(&user->places), struct newcomers_place, link);
}

struct newcomers_place *newcomers_surplus(struct newcomers *newcomers)
{
	struct newcomers_user *most = NULL;
	struct list *l;

	list_for_each(l, &newcomers->users) {
		struct newcomers_user *user = container_of(l, struct newcomers_user, link);

		if (user->n > NEWCOMERS_PER_USER)
			return oldest_of(user);
		if (counts(newcomers, user) && (!most || user->n > most->n))
			most = user;
	}
	return newcomers->n > NEWCOMERS_MAX ? oldest_of(most) : NULL;
}
