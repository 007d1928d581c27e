/* SPDX-License-Identifier: BSD-2-Clause */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "atoms.h"
#include "grow.h"
#include "proto/addr.h"
#include "proto/gids.h"
#include "proto/unitname.h"

#define NAMES_MAX 4 /* programs that a comment names */

const char suggested_outcome[] = "suggested";

const char *const suggested_operations[N_OPERATIONS] = { "session", "device", "listen",
							 "connect", "accept", "join" };

/* Lists */

static bool is_same_list(const void *a, size_t n_a, const void *b, size_t n_b, size_t size)
{
	return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a * size) == 0);
}

static int compare_uids(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->from != y->from ? x->from - y->from : x->to - y->to;
}

/* Those that hold others come first. */
static int compare_prefixes(const void *a, const void *b)
{
	const struct prefix *x = a, *y = b;
	int r = x->kind - y->kind;

	if (r == 0)
		r = memcmp(x->address, y->address, sizeof(x->address));
	return r != 0 ? r : x->bits - y->bits;
}

static bool contains(const struct prefix *outer, const struct prefix *inner)
{
	if (outer->kind != inner->kind || outer->bits > inner->bits)
		return false;
	for (unsigned i = 0; i < outer->bits; i++)
		if ((outer->address[i / 8] ^ inner->address[i / 8]) & (0x80 >> i % 8))
			return false;
	return true;
}

static void sort_uids(struct atom *atom)
{
	size_t n = 0;

	qsort(atom->uids, atom->n_uids, sizeof(*atom->uids), compare_uids);
	for (size_t i = 0; i < atom->n_uids; i++)
		if (n == 0 || atom->uids[n - 1] != atom->uids[i])
			atom->uids[n++] = atom->uids[i];
	atom->n_uids = n;
}

/* Ranges that overlap or follow each other become one. */
static void sort_ports(struct atom *atom)
{
	size_t n = 0;

	if (atom->n_ports == 0)
		return;
	qsort(atom->ports, atom->n_ports, sizeof(*atom->ports), compare_ranges);
	for (size_t i = 1; i < atom->n_ports; i++) {
		if (atom->ports[i].from > atom->ports[n].to + 1)
			atom->ports[++n] = atom->ports[i];
		else if (atom->ports[i].to > atom->ports[n].to)
			atom->ports[n].to = atom->ports[i].to;
	}
	atom->n_ports = n + 1;
}

static void sort_peers(struct atom *atom)
{
	size_t n = 0;

	if (atom->n_peers == 0)
		return;
	qsort(atom->peers, atom->n_peers, sizeof(*atom->peers), compare_prefixes);
	for (size_t i = 0; i < atom->n_peers; i++)
		if (n == 0 || !contains(&atom->peers[n - 1], &atom->peers[i]))
			atom->peers[n++] = atom->peers[i];
	atom->n_peers = n;
}

/* Atoms */

const char *atoms_lasting_unit(const struct rdmabroker_refusal *seen)
{
	return seen->who.unit && unit_comes_back(seen->who.unit) && !seen->who.container ?
		       seen->who.unit :
		       NULL;
}

/* Units of users' sessions say no more than the user. */
static const char *service_of(const struct rdmabroker_refusal *seen)
{
	const char *unit = atoms_lasting_unit(seen), *end = unit ? strrchr(unit, '.') : NULL;

	return end && strcmp(end, ".service") == 0 && strncmp(unit, "user@", 5) != 0 ? unit : NULL;
}

static bool find_operation(const struct rdmabroker_refusal *seen, unsigned *ret)
{
	for (unsigned i = 0; i < N_OPERATIONS; i++)
		if (strcmp(suggested_operations[i], seen->operation) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

bool atoms_can_have(const char *text)
{
	for (; text && *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

/* What is not known cannot be asked for: a rule without it would allow everything. */
static bool is_known(const struct rdmabroker_refusal *seen, unsigned operation)
{
	bool has_port = seen->port > 0 || seen->any_port,
	     has_peer = seen->peer.ss_family != AF_UNSPEC;

	if (!atoms_can_have(seen->who.unit) || !atoms_can_have(seen->device))
		return false;
	switch (operation) {
	case DEVICE:
		return seen->device != NULL;
	case LISTEN:
		return has_port;
	case CONNECT:
	case ACCEPT:
		return has_port && has_peer;
	case JOIN:
		return has_peer;
	default:
		return true;
	}
}

bool atoms_want(const struct rdmabroker_refusal *seen, const struct suggestion_options *options,
		unsigned *ret_operation)
{
	return (seen->outcome == suggested_outcome || strcmp(seen->outcome, "warned") == 0 ||
		strcmp(seen->outcome, "no-rule") == 0 ||
		(options->rejected && strcmp(seen->outcome, "rejected") == 0)) &&
	       find_operation(seen, ret_operation) && is_known(seen, *ret_operation);
}

/* The length to which a peer is widened. */
static unsigned bits_of(const struct rdmabroker_refusal *seen,
			const struct suggestion_options *options, unsigned operation)
{
	bool is_4 = seen->peer.ss_family == AF_INET;

	/* A group is no host with neighbours, and the first half of a GID is the same for the whole fabric. */
	if (operation == JOIN || (!is_4 && seen->peer.ss_family != AF_INET6))
		return is_4 ? 32 : 128;
	return is_4 ? options->peer_prefix : options->peer_prefix6;
}

static bool has_peer(unsigned operation)
{
	return operation == CONNECT || operation == ACCEPT || operation == JOIN;
}

bool atoms_are_wide(const struct rdmabroker_refusal *seen, const struct suggestion_options *options,
		    unsigned operation)
{
	return has_peer(operation) && seen->outcome != suggested_outcome &&
	       seen->peer_prefix < bits_of(seen, options, operation);
}

static struct prefix peer_of(const struct rdmabroker_refusal *seen,
			     const struct suggestion_options *options, unsigned operation)
{
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)&seen->peer;
	unsigned bits = bits_of(seen, options, operation);
	struct prefix ret = { .kind = 4 };

	if (seen->peer.ss_family == AF_INET) {
		memcpy(ret.address, &in4->sin_addr, sizeof(in4->sin_addr));
	} else {
		ret.kind = seen->peer.ss_family == AF_INET6 ? 6 : ADDR_KIND_GID;
		addr_host((const struct sockaddr *)&seen->peer, ret.address);
	}
	if (bits > seen->peer_prefix)
		bits = seen->peer_prefix;
	ret.bits = (uint8_t)bits;
	for (unsigned i = bits; i < 8 * sizeof(ret.address); i++)
		ret.address[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
	return ret;
}

static bool has_name(const struct atom *atom, const char *name)
{
	for (size_t i = 0; i < atom->n_names; i++)
		if (strcmp(atom->names[i], name) == 0)
			return true;
	return false;
}

static void count_in(struct atom *atom, uint64_t count, uint64_t first_ms, uint64_t last_ms,
		     const char *name)
{
	atom->count += count;
	if (first_ms > 0 && (atom->first_ms == 0 || first_ms < atom->first_ms))
		atom->first_ms = first_ms;
	if (last_ms > atom->last_ms)
		atom->last_ms = last_ms;
	if (name && atom->n_names < NAMES_MAX && !has_name(atom, name))
		ADD(atom->names, atom->n_names, name);
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_alike(const struct atom *a, const struct atom *b)
{
	return a->operation == b->operation && a->is_wide == b->is_wide && a->pkey == b->pkey &&
	       is_same_text(a->unit, b->unit) && is_same_text(a->device, b->device);
}

/* The port of a connect is the peer's, so whether the peer's kernel has chosen it shows in its number alone. */
static bool is_chosen(const struct rdmabroker_refusal *seen,
		      const struct suggestion_options *options, unsigned operation)
{
	return seen->any_port || (operation == CONNECT && seen->port >= options->first_port &&
				  seen->port <= options->last_port);
}

static void set_gids(struct atom *atom, const struct rdmabroker_refusal *seen)
{
	while (atom->n_gids < GIDS_MAX && atom->n_gids < seen->who.n_gids) {
		atom->gids[atom->n_gids] = seen->who.gids[atom->n_gids];
		atom->n_gids++;
	}
}

/* What was SEEN, but for the peer, as one more atom, or the one that there is already. */
static struct atom *find_atom(struct atoms *atoms, const struct rdmabroker_refusal *seen,
			      const struct suggestion_options *options, unsigned operation)
{
	bool has_port = operation == LISTEN || operation == CONNECT || operation == ACCEPT;
	bool chosen = is_chosen(seen, options, operation);
	const struct range port = { chosen ? options->first_port : seen->port,
				    chosen ? options->last_port : seen->port };
	struct atom new = {
		.operation = operation,
		.unit = service_of(seen),
		.device = operation == DEVICE ? seen->device : NULL,
		.pkey = seen->pkey,
		.is_wide = atoms_are_wide(seen, options, operation),
	};

	for (size_t i = 0; i < atoms->n; i++) {
		struct atom *atom = &atoms->atoms[i];

		if (is_alike(atom, &new) && atom->uids[0] == seen->who.uid &&
		    is_same_list(atom->ports, atom->n_ports, &port, has_port, sizeof(port)))
			return atom;
	}
	ADD(new.uids, new.n_uids, seen->who.uid);
	if (has_port)
		ADD(new.ports, new.n_ports, port);
	set_gids(&new, seen);
	ADD(atoms->atoms, atoms->n, new);
	return &atoms->atoms[atoms->n - 1];
}

static void add_seen(struct atoms *atoms, const struct rdmabroker_refusal *seen,
		     const struct suggestion_options *options, unsigned operation)
{
	struct atom *atom = find_atom(atoms, seen, options, operation);

	/* Of what was suggested earlier, the groups are not known. */
	if (seen->outcome != suggested_outcome)
		atom->n_gids = gids_keep_common(atom->gids, atom->n_gids, seen->who.gids,
						seen->who.n_gids);
	if (has_peer(operation))
		ADD(atom->peers, atom->n_peers, peer_of(seen, options, operation));
	count_in(atom, seen->count, seen->first_ms, seen->last_ms, seen->name);
}

/* Whether only their ports differ; or, BY_USER, only their users. */
static bool can_join(const struct atom *a, const struct atom *b, bool by_user)
{
	return is_alike(a, b) &&
	       is_same_list(a->peers, a->n_peers, b->peers, b->n_peers, sizeof(*a->peers)) &&
	       (by_user ? is_same_list(a->ports, a->n_ports, b->ports, b->n_ports,
				       sizeof(*a->ports)) :
			  is_same_list(a->uids, a->n_uids, b->uids, b->n_uids, sizeof(*a->uids)));
}

static void take_rest(struct atom *to, struct atom *from)
{
	count_in(to, from->count, from->first_ms, from->last_ms, NULL);
	for (size_t i = 0; i < from->n_names; i++)
		count_in(to, 0, to->first_ms, to->last_ms, from->names[i]);
	to->n_gids = gids_keep_common(to->gids, to->n_gids, from->gids, from->n_gids);
	from->is_joined = true;
}

/* Joins atoms that differ in their ports alone, and then those that differ in their users alone. */
static void join_atoms(struct atoms *atoms, bool by_user)
{
	for (size_t i = 0; i < atoms->n; i++) {
		struct atom *to = &atoms->atoms[i];

		for (size_t k = i + 1; k < atoms->n && !to->is_joined; k++) {
			struct atom *from = &atoms->atoms[k];

			if (from->is_joined || !can_join(from, to, by_user))
				continue;
			for (size_t n = 0; !by_user && n < from->n_ports; n++)
				ADD(to->ports, to->n_ports, from->ports[n]);
			for (size_t n = 0; by_user && n < from->n_uids; n++)
				ADD(to->uids, to->n_uids, from->uids[n]);
			take_rest(to, from);
		}
		sort_ports(to);
		sort_uids(to);
	}
}

void atoms_make(struct atoms *ret, const struct rdmabroker_refusals *seen,
		const struct suggestion_options *options)
{
	unsigned operation;

	*ret = (struct atoms){ 0 };
	for (size_t i = 0; i < seen->n; i++)
		if (atoms_want(&seen->list[i], options, &operation))
			add_seen(ret, &seen->list[i], options, operation);
	for (size_t i = 0; i < ret->n; i++)
		sort_peers(&ret->atoms[i]);
	join_atoms(ret, /* by_user= */ false);
	join_atoms(ret, /* by_user= */ true);
}

void atoms_done(struct atoms *atoms)
{
	for (size_t i = 0; i < atoms->n; i++) {
		free(atoms->atoms[i].uids);
		free(atoms->atoms[i].ports);
		free(atoms->atoms[i].peers);
		free(atoms->atoms[i].names);
	}
	free(atoms->atoms);
}
