/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The admins' verbs: list all sessions and ids, end them, and drain the broker. */

#include <stdbool.h>
#include <stdint.h>

struct core;
struct failure;
struct id;
struct session;

/*
 * A position in the list of all sessions and their ids. It stays valid while sessions and ids come and go,
 * because it consists of numbers, not pointers. In the list a session comes before its ids; the ids of a
 * session are in the order of their handles.
 */
struct admin_cursor {
	/* number of the next entry's session; if that session is gone, it means the next higher one */
	uint64_t session;
	/* handle of the next id; if that id is gone, it means the next higher one; 0: the session itself */
	uint32_t id;
};

/*
 * Returns the next session or id and moves CURSOR past it. *RET_ID is NULL if the next entry is a session
 * itself. False: the list has no more entries.
 */
bool admin_next(struct admin_cursor *cursor, const struct core *core, struct session **ret_session,
		struct id **ret_id);

/*
 * The admin BY ends session NUMBER (admin_kick_session()), or only the session's id HANDLE (admin_kick_id()). The
 * journal names the admin. Both return 0, or a status that FAILURE explains: STATUS_NO_SUCH_ID (there is no such
 * session or id), STATUS_BAD_STATE (the id has ended or is disconnecting already, or another session has taken it
 * over) or STATUS_BAD_REQUEST (admin_kick_session() only: NUMBER is the admin's own session).
 */
int admin_kick_session(struct session *by, uint64_t number, struct failure *failure);
int admin_kick_id(struct session *by, uint64_t number, uint32_t handle, struct failure *failure);
/*
 * Begins or ends draining, and writes to the journal that the admin BY did so. While the broker drains, it refuses
 * clients that begin anything new. No effect if nothing changes.
 */
void admin_set_draining(struct session *by, bool draining);
