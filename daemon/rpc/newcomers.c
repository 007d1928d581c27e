/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "rpc/newcomers.h"

/* The owners of a range, or an owner who is in none. */
struct newcomers_group {
	struct list link; /* newcomers.groups */
	struct list users; /* newcomers_user.link */
	uint64_t key; /* owner_group() */
	unsigned n; /* places */
};

struct newcomers_user {
	struct list link; /* newcomers_group.users */
	struct list places; /* newcomers_place.link */
	struct newcomers_group *group;
	uid_t uid;
	unsigned n;
};

void newcomers_init(struct newcomers *newcomers)
{
	*newcomers = (struct newcomers){ .own = geteuid() };
	list_init(&newcomers->groups);
}

void newcomers_done(struct newcomers *newcomers)
{
	assert(list_is_empty(&newcomers->groups));
}

/*
 * False: the owner is root or the daemon's own user. Their clients do not count towards NEWCOMERS_MAX, and are not dropped
 * because of it.
 */
static bool counts(const struct newcomers *newcomers, const struct newcomers_group *group)
{
	return group->key != 0 && group->key != newcomers->own;
}

/* Lists suffice, because there are no more groups and users than places. */
static struct newcomers_group *get_group(struct newcomers *newcomers, struct owner owner)
{
	uint64_t key = owner_group(owner);
	struct newcomers_group *group;
	struct list *l;

	list_for_each(l, &newcomers->groups) {
		group = container_of(l, struct newcomers_group, link);
		if (group->key == key)
			return group;
	}
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	group->key = key;
	list_init(&group->users);
	list_insert(&newcomers->groups, &group->link);
	return group;
}

static struct newcomers_user *get_user(struct newcomers_group *group, struct owner owner)
{
	struct newcomers_user *user;
	struct list *l;

	list_for_each(l, &group->users) {
		user = container_of(l, struct newcomers_user, link);
		if (user->uid == owner.uid)
			return user;
	}
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = owner.uid;
	user->group = group;
	list_init(&user->places);
	list_insert(&group->users, &user->link);
	return user;
}

static void put_group(struct newcomers_group *group)
{
	if (group->n > 0)
		return;
	list_remove(&group->link);
	free(group);
}

int newcomers_enter(struct newcomers *newcomers, struct newcomers_place *place, struct owner owner)
{
	struct newcomers_group *group = get_group(newcomers, owner);
	struct newcomers_user *user = group ? get_user(group, owner) : NULL;

	if (!user) {
		if (group)
			put_group(group);
		return -ENOMEM;
	}
	user->n++;
	group->n++;
	newcomers->n += counts(newcomers, group);
	place->newcomers = newcomers;
	place->user = user;
	list_insert(&user->places, &place->link);
	return 0;
}

void newcomers_leave(struct newcomers_place *place)
{
	struct newcomers_user *user = place->user;
	struct newcomers_group *group;

	if (!user)
		return;
	group = user->group;
	list_remove(&place->link);
	place->newcomers->n -= counts(place->newcomers, group);
	place->user = NULL;
	if (--user->n == 0) {
		list_remove(&user->link);
		free(user);
	}
	group->n--;
	put_group(group);
}

unsigned newcomers_count(const struct newcomers *newcomers, struct owner owner)
{
	struct list *l;

	list_for_each(l, &newcomers->groups) {
		const struct newcomers_group *group = container_of(l, struct newcomers_group, link);

		if (group->key == owner_group(owner))
			return group->n;
	}
	return 0;
}

static struct newcomers_place *oldest_of(struct newcomers_group *group)
{
	struct newcomers_user *most = NULL;
	struct list *l;

	list_for_each(l, &group->users) {
		struct newcomers_user *user = container_of(l, struct newcomers_user, link);

		if (!most || user->n > most->n)
			most = user;
	}
	return container_of(list_first(&most->places), struct newcomers_place, link);
}

struct newcomers_place *newcomers_surplus(struct newcomers *newcomers)
{
	struct newcomers_group *most = NULL;
	struct list *l;

	list_for_each(l, &newcomers->groups) {
		struct newcomers_group *group = container_of(l, struct newcomers_group, link);

		if (group->n > NEWCOMERS_PER_USER)
			return oldest_of(group);
		if (counts(newcomers, group) && (!most || group->n > most->n))
			most = group;
	}
	return newcomers->n > NEWCOMERS_MAX ? oldest_of(most) : NULL;
}
