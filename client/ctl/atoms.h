/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What was seen, joined to what can be one rule each:
 *
 *   seen ── atom, atom, ...     what was seen of one user in one unit, with one port
 *     ports of alike atoms are joined, then their users
 *
 * Peers that the daemon has joined to a prefix are in it, but are not for a rule: the prefix holds others, and whoever has
 * chosen the peers has chosen the prefix.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "suggestion.h"

#define GIDS_MAX 16 /* that are known of a process */

/* Those that are suggested, in the order of the rules. Who may observe or administer is not found out by trying. */
enum { SESSION, DEVICE, LISTEN, CONNECT, ACCEPT, JOIN, N_OPERATIONS };

extern const char *const suggested_operations[N_OPERATIONS];

struct range {
	uint16_t from, to;
};

struct prefix {
	uint8_t address[16];
	uint8_t kind; /* 4, 6 or ADDR_KIND_GID */
	uint8_t bits;
};

struct atom {
	unsigned operation;
	const char *unit; /* NULL: any */
	const char *device; /* of the operation device; else NULL */
	uint16_t pkey; /* that was named; 0: none */
	uint32_t *uids;
	struct range *ports;
	struct prefix *peers;
	const char **names;
	size_t n_uids, n_ports, n_peers, n_names;
	uint32_t gids[GIDS_MAX]; /* that all its processes were in */
	size_t n_gids;
	uint64_t count, first_ms,
		last_ms; /* 0: it was suggested earlier, and not requested since */
	const char *group; /* of the users, which stands for them; NULL: none */
	bool is_wide; /* its peers are prefixes, which hold others, too */
	bool is_joined; /* another atom has what it had */
};

struct atoms {
	struct atom *atoms;
	size_t n;
};

#define ADD(list, n, item) ((list) = grow(list, n, sizeof(*(list))), (list)[(n)++] = (item))

void atoms_make(struct atoms *ret, const struct rdmabroker_refusals *seen,
		const struct suggestion_options *options);
void atoms_done(struct atoms *atoms);

/* Whether a rule is suggested for SEEN, and its operation. */
bool atoms_want(const struct rdmabroker_refusal *seen, const struct suggestion_options *options,
		unsigned *ret_operation);
/* Whether the daemon has joined more peers than the options would. */
bool atoms_are_wide(const struct rdmabroker_refusal *seen, const struct suggestion_options *options,
		    unsigned operation);
/* Files of rules have no control characters, and who reads them has to see what they say. */
bool atoms_can_have(const char *text);
/* NULL: none, or one with another name the next time. */
const char *atoms_lasting_unit(const struct rdmabroker_refusal *seen);
