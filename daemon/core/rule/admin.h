/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The admins' verbs: list and end sessions and ids, and drain the broker. */

#include <stdbool.h>
#include <stdint.h>

struct core;
struct failure;
struct id;
struct session;

/*
 * A position in the list of all sessions, in which each session is followed by its ids. The position stays valid when
 * sessions or ids are created or freed.
 */
struct admin_cursor {
	/* the next entry's session: the first one with at least this number */
	uint64_t session;
	/* the next entry: the first id with at least this handle; 0: the session itself */
	uint32_t id;
};

/*
 * Gets the next entry and moves CURSOR past it. *RET_ID is NULL if the entry is a session. False: the list has no
 * more entries.
 */
bool admin_next(struct admin_cursor *cursor, const struct core *core, struct session **ret_session,
		struct id **ret_id);

/*
 * Admin BY ends session NUMBER. Returns 0; STATUS_NO_SUCH_ID; or STATUS_BAD_REQUEST: NUMBER is the admin's own
 * session.
 */
int admin_kick_session(struct session *by, uint64_t number, struct failure *failure);
/*
 * Admin BY ends id HANDLE of session NUMBER. Returns 0; STATUS_NO_SUCH_ID; or STATUS_BAD_STATE: the id is ending, has
 * ended or was imported.
 */
int admin_kick_id(struct session *by, uint64_t number, uint32_t handle, struct failure *failure);
/* Begins or ends draining. While the broker drains, it refuses clients that begin anything new. */
void admin_set_draining(struct session *by, bool draining);
