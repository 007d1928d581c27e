/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/cm/leftover_places.h"
#include "proto/addr.h"
#include "util/hash.h"

/* No padding, because uthash hashes the bytes. All zero: no address. */
struct end {
	uint8_t host[ADDR_HOST_LEN];
	uint16_t family, port;
};

struct key {
	struct end local, peer;
};

struct leftover_place {
	UT_hash_handle hh;
	struct key key;
	struct list entries;
};

void leftover_places_done(struct leftover_places *places)
{
	struct leftover_place *place, *next;

	HASH_ITER(hh, places->table, place, next)
	{
		HASH_DEL(places->table, place);
		list_remove(&place->entries);
		free(place);
	}
}

/* The kernel gives an id that is bound, but has no peer, the peer address 0 of the same family. */
static void set_end(struct end *ret, const struct sockaddr_storage *address)
{
	const struct sockaddr *a = (const struct sockaddr *)address;

	memset(ret, 0, sizeof(*ret));
	if (a->sa_family == AF_UNSPEC || (addr_is_wildcard(a) && addr_port(a) == 0))
		return;
	addr_host(a, ret->host);
	ret->family = a->sa_family;
	ret->port = addr_port(a);
}

static struct leftover_place *find(const struct leftover_places *places, const struct key *key)
{
	struct leftover_place *place;

	HASH_FIND(hh, places->table, key, sizeof(*key), place);
	return place;
}

static int add(struct leftover_places *places, const struct key *key, struct list *l)
{
	struct leftover_place *place = find(places, key);

	if (!place) {
		place = calloc(1, sizeof(*place));
		if (!place)
			return -ENOMEM;
		place->key = *key;
		list_init(&place->entries);
		HASH_ADD(hh, places->table, key, sizeof(place->key), place);
		if (!place->hh.tbl) {
			free(place);
			return -ENOMEM;
		}
	}
	list_remove(l);
	list_insert(&place->entries, l);
	return 0;
}

int leftover_places_add(struct leftover_places *places, const struct sockaddr_storage *local,
			const struct sockaddr_storage *peer, struct list *l)
{
	struct key key;

	set_end(&key.local, local);
	set_end(&key.peer, peer);
	return add(places, &key, l);
}

struct list *leftover_places_find(const struct leftover_places *places,
				  const struct sockaddr_storage *local,
				  const struct sockaddr_storage *peer)
{
	struct leftover_place *place;
	struct key key;

	set_end(&key.local, local);
	set_end(&key.peer, peer);
	place = find(places, &key);
	return place ? &place->entries : NULL;
}

static struct key key_of_port(const struct sockaddr_storage *local)
{
	struct key key;

	memset(&key, 0, sizeof(key));
	key.local.port = addr_port((const struct sockaddr *)local);
	return key;
}

int leftover_places_add_port(struct leftover_places *places, const struct sockaddr_storage *local,
			     struct list *l)
{
	const struct key key = key_of_port(local);

	return add(places, &key, l);
}

struct list *leftover_places_find_port(const struct leftover_places *places,
				       const struct sockaddr_storage *local)
{
	const struct key key = key_of_port(local);
	struct leftover_place *place = find(places, &key);

	return place ? &place->entries : NULL;
}
