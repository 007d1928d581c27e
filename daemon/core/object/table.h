/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The table of a session's ids, by their handles. */

#include <stdbool.h>
#include <stdint.h>

struct failure;
struct group;
struct id;
struct session;

#define SESSION_FIRST_REQUEST 0x80000000u /* the broker chooses the handles from this number on */

/* A walk over a session's ids, which can be interrupted. All zero: the beginning. */
struct table_walk {
	bool begun; /* kept by rule/enforce.c: the session itself was checked */
	uint32_t request, id; /* the last visited places in session.requests and session.ids */
	/* the next multicast group of the last visited id; NULL: there are no more. Kept by verbs/group.c. */
	struct group *group;
};

/* The next id; NULL: there are no more. Between two calls, ids can be added and removed. */
struct id *table_next(struct session *session, struct table_walk *walk);
/* Returns 0 or STATUS_NO_SUCH_ID. */
int table_find(struct session *session, uint32_t handle, struct id **ret, struct failure *failure);
/*
 * HANDLE 0: chooses a handle from SESSION_FIRST_REQUEST on. Returns 0, STATUS_BAD_REQUEST, STATUS_QUOTA or a negative
 * errno.
 */
int table_add(struct session *session, struct id *id, uint32_t handle, uint32_t *ret,
	      struct failure *failure);
/* As table_add(), for an id that has HANDLE already, without limits. */
int table_add_again(struct session *session, struct id *id, uint32_t handle, uint32_t *ret,
		    struct failure *failure);
void table_remove(struct session *session, uint32_t handle);
