/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The lobby holds the clients that are connected, but whose session is not charged to their user yet. The number of
 * places is limited, for each user and for all users together. A new client always gets a place. If its user then has
 * too many clients in the lobby, the oldest of them has to go. If all users together have too many clients in the
 * lobby, the oldest client of the user with most clients has to go. So a user with many silent connections displaces
 * only its own clients.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "util/list.h"

#define LOBBY_MAX 256 /* the clients of root and of the daemon's own user are not counted */
#define LOBBY_PER_USER 64

struct lobby_user;

struct lobby {
	struct list users; /* lobby_user.link */
	unsigned n; /* places taken, except by clients of root and of OWN */
	uid_t own; /* the uid that this process runs as */
};

/* A place in the lobby. Embedded in the struct peer that waits. */
struct lobby_place {
	struct list link; /* lobby_user.places, the oldest first */
	struct lobby *lobby;
	struct lobby_user *user; /* NULL: the peer is not in the lobby */
};

void lobby_init(struct lobby *lobby);
void lobby_done(struct lobby *lobby); /* the lobby must be empty */
int lobby_enter(struct lobby *lobby, struct lobby_place *place, uid_t uid); /* 0 or -ENOMEM */
void lobby_leave(struct lobby_place *place); /* idempotent */
/* The place whose client has to go because there are too many clients; NULL: there are not too many. */
struct lobby_place *lobby_surplus(struct lobby *lobby);
