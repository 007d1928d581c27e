/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A session's ids by number. All functions need the session's lock, unless the session is being closed. */

#include <stdbool.h>
#include <stdint.h>

struct rdmabroker_id;

/* The daemon numbers the ids of connection requests, and imported ids, from here. */
#define FIRST_REQUEST 0x80000000u
/*
 * The maximum number of ids that a session creates itself, and also the maximum number of its ids from connection
 * requests and imports, whatever the broker sends. It is the maximum of the daemon's IdsPerSession= too.
 */
#define IDS_MAX 1048576

struct idslots {
	/*
	 * Indexed by the id's number minus the first number (OWN: 1, REQUESTS: FIRST_REQUEST). NULL: free. DYING: the
	 * id was destroyed here, but it is not known yet whether the broker has destroyed it too.
	 */
	struct rdmabroker_id **ids;
	uint32_t n;
	uint32_t n_full; /* OWN only: the first N_FULL slots are not free */
};

struct idtable {
	uint32_t max; /* maximum number of ids in OWN */
	struct idslots own, requests; /* REQUESTS has the imported ids too */
};

/* Give ID the lowest free number, *RET. -EDQUOT: there is none; -ENOMEM. */
int idtable_add(struct idtable *table, struct rdmabroker_id *id, uint32_t *ret);
/* Add ID, a connection request or an imported id, to which the broker gave the number HANDLE. */
int idtable_add_request(struct idtable *table, struct rdmabroker_id *id, uint32_t handle);
bool idtable_has_dying(const struct idtable *table);
/* The id with the number HANDLE. NULL: there is none, or it is destroyed already. */
struct rdmabroker_id *idtable_find(struct idtable *table, uint32_t handle);
/* Give the number HANDLE, which another id has, to ID. */
void idtable_replace(struct idtable *table, uint32_t handle, struct rdmabroker_id *id);
/* The id with the number HANDLE is destroyed. The number stays in use until idtable_free(). */
void idtable_set_dying(struct idtable *table, uint32_t handle);
void idtable_free(struct idtable *table, uint32_t handle);
/* The next id, to iterate over all: *POS has to be 0 at first. NULL: there are no more. */
struct rdmabroker_id *idtable_next(const struct idtable *table, uint32_t *pos);
void idtable_done(struct idtable *table);
