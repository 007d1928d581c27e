/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Finds leftover ids by their addresses, so that restoring an id takes as long among ten thousand as among a hundred. */

#include <sys/socket.h>

#include "util/list.h"

struct leftover_place;

struct leftover_places {
	struct leftover_place *table; /* a uthash table */
};

void leftover_places_done(
	struct leftover_places
		*places); /* all entries must have been removed, or belong to no list head here */

/*
 * Adds L to the entries with the addresses LOCAL and PEER. list_remove() takes it out again. Returns 0 or -ENOMEM. An
 * address of no family, and one that is a wildcard without a port, is none, whatever its family.
 */
int leftover_places_add(struct leftover_places *places, const struct sockaddr_storage *local,
			const struct sockaddr_storage *peer, struct list *l);
/* The head of the entries with these addresses, the oldest first; NULL: there are none. */
struct list *leftover_places_find(const struct leftover_places *places,
				  const struct sockaddr_storage *local,
				  const struct sockaddr_storage *peer);

/* The same for the port of LOCAL alone. */
int leftover_places_add_port(struct leftover_places *places, const struct sockaddr_storage *local,
			     struct list *l);
struct list *leftover_places_find_port(const struct leftover_places *places,
				       const struct sockaddr_storage *local);
