/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The lobby: clients that are connected and have not been admitted yet. There are few places, for each user
 * and for all. A new client always gets a place: if there are too many, the oldest client of the user who has
 * most has to go. So a crowd of silent connections of one user displaces only itself, and not clients that
 * send Hello.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "util/list.h"

#define LOBBY_MAX 256 /* without root and the user that this process runs as */
#define LOBBY_PER_USER 64

struct lobby_user;

struct lobby {
	struct list users; /* lobby_user.link */
	unsigned n; /* places taken, without root's and OWN's */
	uid_t own; /* that this process runs as */
};

/* Embedded in the object that waits. */
struct lobby_place {
	struct list link; /* lobby_user.places, the oldest first */
	struct lobby *lobby;
	struct lobby_user *user; /* NULL: it is not in the lobby */
};

void lobby_init(struct lobby *lobby);
void lobby_done(struct lobby *lobby); /* all must have left */
int lobby_enter(struct lobby *lobby, struct lobby_place *place, uid_t uid); /* 0 or -ENOMEM */
void lobby_leave(struct lobby_place *place); /* idempotent */
/* The one that has to go because there are too many; NULL: there are not too many. */
struct lobby_place *lobby_surplus(struct lobby *lobby);
