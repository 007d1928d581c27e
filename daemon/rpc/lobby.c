/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "rpc/lobby.h"

struct lobby_user {
	struct list link; /* lobby.users */
	struct list places; /* lobby_place.link */
	uid_t uid;
	unsigned n;
};

void lobby_init(struct lobby *lobby)
{
	*lobby = (struct lobby){ .own = geteuid() };
	list_init(&lobby->users);
}

void lobby_done(struct lobby *lobby)
{
	assert(list_is_empty(&lobby->users));
}

/*
 * False: USER is root or the daemon's own user. Their clients do not count towards LOBBY_MAX, and are not dropped
 * because of it.
 */
static bool counts(const struct lobby *lobby, const struct lobby_user *user)
{
	return user->uid != 0 && user->uid != lobby->own;
}

/* A list suffices, because there are no more users than places. */
static struct lobby_user *find_user(struct lobby *lobby, uid_t uid)
{
	struct list *l;

	list_for_each(l, &lobby->users) {
		struct lobby_user *user = container_of(l, struct lobby_user, link);

		if (user->uid == uid)
			return user;
	}
	return NULL;
}

int lobby_enter(struct lobby *lobby, struct lobby_place *place, uid_t uid)
{
	struct lobby_user *user = find_user(lobby, uid);

	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return -ENOMEM;
		user->uid = uid;
		list_init(&user->places);
		list_insert(&lobby->users, &user->link);
	}
	user->n++;
	lobby->n += counts(lobby, user);
	place->lobby = lobby;
	place->user = user;
	list_insert(&user->places, &place->link);
	return 0;
}

void lobby_leave(struct lobby_place *place)
{
	struct lobby_user *user = place->user;

	if (!user)
		return;
	list_remove(&place->link);
	place->lobby->n -= counts(place->lobby, user);
	place->user = NULL;
	if (--user->n > 0)
		return;
	list_remove(&user->link);
	free(user);
}

static struct lobby_place *oldest_of(struct lobby_user *user)
{
	return container_of(list_first(&user->places), struct lobby_place, link);
}

struct lobby_place *lobby_surplus(struct lobby *lobby)
{
	struct lobby_user *most = NULL;
	struct list *l;

	list_for_each(l, &lobby->users) {
		struct lobby_user *user = container_of(l, struct lobby_user, link);

		if (user->n > LOBBY_PER_USER)
			return oldest_of(user);
		if (counts(lobby, user) && (!most || user->n > most->n))
			most = user;
	}
	return lobby->n > LOBBY_MAX ? oldest_of(most) : NULL;
}
