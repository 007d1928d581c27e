/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Finds heirs by their addresses, so that taking over an id takes as long among ten thousand as among a hundred. */

#include <sys/socket.h>

#include "util/list.h"

struct heir_place;

struct heir_places {
	struct heir_place *table; /* a uthash table */
};

void heir_places_done(
	struct heir_places
		*places); /* all entries must have been removed, or belong to no list head here */

/*
 * Adds L to the entries with the addresses LOCAL and PEER. list_remove() takes it out again. Returns 0 or -ENOMEM. An
 * address of no family, and one that is a wildcard without a port, is none, whatever its family.
 */
int heir_places_add(struct heir_places *places, const struct sockaddr_storage *local,
		    const struct sockaddr_storage *peer, struct list *l);
/* The head of the entries with these addresses, the oldest first; NULL: there are none. */
struct list *heir_places_find(const struct heir_places *places,
			      const struct sockaddr_storage *local,
			      const struct sockaddr_storage *peer);

/* The same for the port of LOCAL alone. */
int heir_places_add_port(struct heir_places *places, const struct sockaddr_storage *local,
			 struct list *l);
struct list *heir_places_find_port(const struct heir_places *places,
				   const struct sockaddr_storage *local);
