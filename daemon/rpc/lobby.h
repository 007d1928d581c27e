/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Who is connected and has not been admitted yet. There are few places, for each user and for all, and who
 * comes last gets one: the oldest of the user who has most has to go. So a crowd of one user's silent
 * connections drives out itself, and not those who say hello.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "util/list.h"

#define LOBBY_MAX 256 /* but for root and the user that this process runs as */
#define LOBBY_PER_USER 64

struct lobby_user;

struct lobby {
	struct list users; /* lobby_user.link */
	unsigned n; /* of those who count */
	uid_t own; /* that this process runs as */
};

/* Embedded in who waits. */
struct lobby_place {
	struct list link; /* lobby_user.places, the oldest first */
	struct lobby *lobby;
	struct lobby_user *user; /* NULL: it is not in the lobby */
};

void lobby_init(struct lobby *lobby);
void lobby_done(struct lobby *lobby); /* all must have left */
int lobby_enter(struct lobby *lobby, struct lobby_place *place, uid_t uid); /* 0 or -ENOMEM */
void lobby_leave(struct lobby_place *place); /* may be called again */
/* One who has to go, for there are too many; NULL: there are not. */
struct lobby_place *lobby_surplus(struct lobby *lobby);
