/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What admins do: they list all sessions and ids, end them, and drain the broker. */

#include <stdbool.h>
#include <stdint.h>

struct core;
struct failure;
struct id;
struct session;

/*
 * A place in the list of all sessions and their ids, which may come and go meanwhile, because the place is
 * kept as numbers. A session comes before its ids, which are in order of their handles.
 */
struct admin_cursor {
	uint64_t session; /* the next one has this number, or the lowest above it */
	uint32_t id; /* likewise; 0: the session itself */
};

/*
 * Gives the next session or id, and moves CURSOR behind it. *RET_ID is NULL for a session itself. False: there
 * are no more.
 */
bool admin_next(struct admin_cursor *cursor, const struct core *core, struct session **ret_session,
		struct id **ret_id);

/*
 * The admin BY ends a session or one id of it, in the way that enforcing does; the journal reports who did
 * it. 0, or STATUS_NO_SUCH_ID, STATUS_BAD_STATE or STATUS_BAD_REQUEST (its own session), explained
 * by FAILURE.
 */
int admin_kick_session(struct session *by, uint64_t number, struct failure *failure);
int admin_kick_id(struct session *by, uint64_t number, uint32_t handle, struct failure *failure);
/* Begins or ends draining, during which nothing new may begin; the journal reports that BY did it. */
void admin_set_draining(struct session *by, bool draining);
