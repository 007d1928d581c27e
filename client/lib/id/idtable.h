/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A session's ids by number. All with the session's lock held. */

#include <stdbool.h>
#include <stdint.h>

struct rdmabroker_id;

#define FIRST_REQUEST 0x80000000u /* the daemon numbers the ids of connection requests from here */
/* Own ids, and ids of requests, even if the broker is hostile; also the maximum of IdsPerSession=. */
#define IDS_MAX 1048576

struct idslots {
	/* [number - 1]; NULL: free; DYING: destroyed here, the broker has not answered yet */
	struct rdmabroker_id **ids;
	uint32_t n;
	uint32_t n_full; /* this many at the beginning are not free */
};

struct idtable {
	uint32_t max; /* of OWN */
	struct idslots own, requests;
};

/* Give ID the lowest free number, *RET. -EDQUOT: there is none. */
int idtable_add(struct idtable *table, struct rdmabroker_id *id, uint32_t *ret);
/* ID is of a connection request, or imported, and has the number HANDLE. */
int idtable_add_request(struct idtable *table, struct rdmabroker_id *id, uint32_t handle);
bool idtable_has_dying(const struct idtable *table);
/* NULL: there is none, or it is destroyed already. */
struct rdmabroker_id *idtable_find(struct idtable *table, uint32_t handle);
/* ID takes the place of the one that has the number HANDLE. */
void idtable_replace(struct idtable *table, uint32_t handle, struct rdmabroker_id *id);
/* HANDLE's id is destroyed, and the number is not free until the broker has answered. */
void idtable_set_dying(struct idtable *table, uint32_t handle);
void idtable_free(struct idtable *table, uint32_t handle);
/* For all ids: *POS is 0 at first. NULL: there are no more. */
struct rdmabroker_id *idtable_next(const struct idtable *table, uint32_t *pos);
void idtable_done(struct idtable *table);
