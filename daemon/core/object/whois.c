/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/object/id.h"
#include "core/object/session.h"
#include "core/object/table.h"
#include "core/object/whois.h"
#include "proto/addr.h"
#include "util/hash.h"
#include "util/util.h"

/* Addresses of both families in one form. The struct must have no padding, because uthash hashes its bytes. */
struct key {
	uint32_t port_space;
	uint16_t local_port, peer_port; /* network order; PEER_PORT 0: of a listener */
	struct in6_addr local, peer;
};
_Static_assert(sizeof(struct key) == 8 + 2 * sizeof(struct in6_addr), "no padding");

/* An id in the index. Ids with the same key are in one list. */
struct whois_entry {
	struct id *id;
	struct key key;
	struct list link; /* whois_place.entries */
	struct whois_place *place;
};

struct whois_place {
	struct key key;
	struct list entries;
	UT_hash_handle hh;
};

struct whois_index {
	struct whois_place *places; /* a uthash table, by key */
};

/* PEER NULL: the key of a listener. */
static bool make_key(struct key *ret, int port_space, const struct sockaddr *local,
		     const struct sockaddr *peer)
{
	memset(ret, 0, sizeof(*ret));
	ret->port_space = (uint32_t)port_space;
	ret->local_port = htons(addr_port(local));
	ret->peer_port = peer ? htons(addr_port(peer)) : 0;
	/* The other host asks by IP addresses. */
	if (!addr_is_ip(local) || (peer && !addr_is_ip(peer)))
		return false;
	return addr_host(local, ret->local.s6_addr) &&
	       (!peer || addr_host(peer, ret->peer.s6_addr));
}

static bool is_known(const struct id *id)
{
	switch (id->state) {
	case ID_LISTENING:
	case ID_CONNECTING:
	case ID_RESPONDED:
		return true;
	case ID_ESTABLISHED:
	case ID_DISCONNECTING: /* the look-up of a datagram service that was disconnected goes on */
		return !id->handshake.passive;
	default:
		return false;
	}
}

static struct whois_place *get_place(struct whois_index *index, const struct key *key)
{
	struct whois_place *place;

	HASH_FIND(hh, index->places, key, sizeof(*key), place);
	if (place)
		return place;
	place = calloc(1, sizeof(*place));
	if (!place)
		return NULL;
	place->key = *key;
	list_init(&place->entries);
	HASH_ADD_OR_FREE(index->places, key, place);
	return place;
}

/* If memory runs out, the id is not found, so the other host does not know who it is. */
static void add(struct whois_index *index, struct id *id)
{
	struct fabric_id_info info;
	struct whois_entry *entry;
	struct key key;

	fabric_id_get_info(id->fabric, &info);
	if (!make_key(&key, id->ps, (struct sockaddr *)&info.local,
		      id->state == ID_LISTENING ? NULL : (struct sockaddr *)&info.peer))
		return;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return;
	entry->id = id;
	entry->place = get_place(index, &key);
	if (!entry->place) {
		free(entry);
		return;
	}
	list_insert(&entry->place->entries, &entry->link);
	id->whois = entry;
}

void whois_remove(struct id *id)
{
	struct whois_index *index = id->session->core->whois;
	struct whois_place *place;

	if (!id->whois)
		return;
	place = id->whois->place;
	list_remove(&id->whois->link);
	free(id->whois);
	id->whois = NULL;
	if (!list_is_empty(&place->entries))
		return;
	HASH_DEL(index->places, place);
	free(place);
}

void whois_update(struct id *id)
{
	struct whois_index *index = id->session->core->whois;

	if (!index || is_known(id) == (id->whois != NULL))
		return;
	if (id->whois)
		whois_remove(id);
	else if (id->fabric)
		add(index, id);
}

static void for_all(struct core *core, void (*run)(struct id *id))
{
	struct list *l;

	list_for_each(l, &core->sessions) {
		struct session *session = container_of(l, struct session, link);
		struct table_walk walk = { 0 };
		struct id *id;

		while ((id = table_next(session, &walk)))
			run(id);
	}
}

int whois_begin(struct core *core)
{
	if (core->whois)
		return 0;
	core->whois = calloc(1, sizeof(*core->whois));
	if (!core->whois)
		return -ENOMEM;
	for_all(core, whois_update);
	return 0;
}

void whois_end(struct core *core)
{
	if (!core->whois)
		return;
	for_all(core, whois_remove);
	free(core->whois);
	core->whois = NULL;
}

/* What a search has found. */
struct found {
	bool known; /* one or several sessions have the address */
	struct session *
		session; /* NULL: none, or several have it, and it is not known which of them is meant */
};

/* QPN 0: not known. BOTH_FAMILIES: only listeners that accept requests to IPv4 addresses, too. */
static struct found find(const struct whois_index *index, const struct key *key, uint32_t qpn,
			 bool both_families)
{
	struct found found = { .known = false };
	struct whois_place *place;
	struct list *l;

	HASH_FIND(hh, index->places, key, sizeof(*key), place);
	if (!place)
		return found;
	list_for_each(l, &place->entries) {
		const struct id *id = container_of(l, struct whois_entry, link)->id;

		if ((qpn != 0 && id->handshake.qpn != qpn) ||
		    (both_families && id->options.now[OPTION_AFONLY] > 0))
			continue;
		if (found.known && found.session != id->session) {
			found.session = NULL;
			return found;
		}
		found = (struct found){ .known = true, .session = id->session };
	}
	return found;
}

/*
 * A listener has a request's address, or else all addresses: first of the same family, and then also an IPv6 listener
 * that accepts IPv4. Changes KEY to what is looked for in STEP. False: there is nothing to look for.
 */
#define LISTENER_STEPS 3
static bool widen(struct key *key, unsigned step)
{
	bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(&key->local);

	if (step == 1)
		memset(is_ipv4 ? &key->local.s6_addr[12] : key->local.s6_addr, 0, is_ipv4 ? 4 : 16);
	if (step == 2)
		key->local = in6addr_any;
	return step < 2 || is_ipv4;
}

static struct session *find_listener(const struct whois_index *index, struct key *key)
{
	struct found found = { .known = false };

	for (unsigned step = 0; step < LISTENER_STEPS && !found.known; step++)
		if (widen(key, step))
			found = find(index, key, 0, /* both_families= */ step == 2);
	return found.session;
}

struct id *whois_find_listener(const struct core *core, int port_space,
			       const struct sockaddr *local)
{
	struct whois_place *place = NULL;
	struct key key;

	if (!core->whois || !make_key(&key, port_space, local, NULL))
		return NULL;
	for (unsigned step = 0; step < LISTENER_STEPS && !place; step++)
		if (widen(&key, step))
			HASH_FIND(hh, core->whois->places, &key, sizeof(key), place);
	return place ? container_of(list_first(&place->entries), struct whois_entry, link)->id :
		       NULL;
}

struct session *whois_find(const struct core *core, const struct whois_question *question)
{
	struct key key;

	if (!core->whois || !make_key(&key, question->port_space, question->local,
				      question->listens ? NULL : question->peer))
		return NULL;
	return question->listens ?
		       find_listener(core->whois, &key) :
		       find(core->whois, &key, question->qpn, /* both_families= */ false).session;
}
