/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A session's ids by number. All functions need the session's lock, unless the session is being closed. */

#include <stdbool.h>
#include <stdint.h>

#include "proto/handles.h"

struct rdmabroker_id;

/* The daemon gives numbers from here on to connection requests and imported ids. */
#define FIRST_REQUEST 0x80000000u
/*
 * The maximum number of ids that a session creates, as in the daemon's IdsPerSession=. The connection requests and
 * imported ids of a session together have the same maximum.
 */
#define IDS_MAX 1048576

struct idtable {
	uint32_t max; /* maximum number of ids in OWN */
	/*
	 * By number, that of REQUESTS less FIRST_REQUEST - 1. REQUESTS also has the imported ids. An id can be DYING:
	 * destroyed here, but the library does not know yet whether the broker has destroyed it.
	 */
	struct handles own, requests;
};

/* Give ID the lowest free number, *RET. -EDQUOT: there is none; -ENOMEM. */
int idtable_add(struct idtable *table, struct rdmabroker_id *id, uint32_t *ret);
/*
 * Add ID, a connection request or imported id with the number HANDLE. -EPROTO, -EDQUOT: HANDLE is out of range;
 * -EEXIST: in use.
 */
int idtable_add_request(struct idtable *table, struct rdmabroker_id *id, uint32_t handle);
bool idtable_has_dying(const struct idtable *table);
/* The id with the number HANDLE. NULL: there is none, or it is destroyed already. */
struct rdmabroker_id *idtable_find(struct idtable *table, uint32_t handle);
/* Replace the id with the number HANDLE by ID. */
void idtable_replace(struct idtable *table, uint32_t handle, struct rdmabroker_id *id);
/* Remove the id with the number HANDLE. The number stays in use until idtable_free(). */
void idtable_set_dying(struct idtable *table, uint32_t handle);
void idtable_free(struct idtable *table, uint32_t handle);
/* Iterates over all ids: *POS has to be 0 at first. NULL: there are no more. */
struct rdmabroker_id *idtable_next(const struct idtable *table, uint32_t *pos);
void idtable_done(struct idtable *table);
