/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The newcomers are the clients that are connected, but whose session is not charged to their user yet. They are limited,
 * for each user and for all users together. A client that connects always becomes one. If its user then has too many, the
 * oldest of them has to go. If all users together have too many, the oldest one of the user with most has to go. So a user
 * with many silent connections displaces only its own clients. A user is an owner, see util/owner.h; all owners of a range
 * count as one user, of whom the owner with most has to let one go.
 */

#include "util/account.h"
#include "util/list.h"
#include "util/owner.h"

#define NEWCOMERS_MAX 256 /* the clients of root and of the daemon's own user are not counted */
#define NEWCOMERS_PER_USER 64

struct newcomers {
	struct list places; /* newcomers_place.link, the oldest first */
	struct account account; /* of places, as ACCOUNT_SESSIONS */
	unsigned n; /* places taken, except by clients of root and of the daemon's own user */
};

/* One of the newcomers. Embedded in the struct peer that waits. */
struct newcomers_place {
	struct list link; /* newcomers.places */
	struct newcomers *newcomers; /* NULL: the peer is not among the newcomers */
	struct owner owner;
	struct charge charge;
};

void newcomers_init(struct newcomers *newcomers);
void newcomers_done(struct newcomers *newcomers); /* there must be none any more */
int newcomers_enter(struct newcomers *newcomers, struct newcomers_place *place,
		    struct owner owner); /* 0 or -ENOMEM */
void newcomers_leave(struct newcomers_place *place); /* idempotent */
/* The number of clients of all who count as one user with OWNER. */
unsigned newcomers_count(const struct newcomers *newcomers, struct owner owner);
/*
 * The place whose client has to go because there are too many clients; NULL: there are not too many. To be called after
 * each newcomers_enter(), until it is NULL.
 */
struct newcomers_place *newcomers_surplus(struct newcomers *newcomers);
