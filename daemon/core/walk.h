/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A walk over all sessions and their ids that can be interrupted and continued while sessions and ids come
 * and go, because the position is kept as numbers. A session comes before its ids, which are in order of
 * their handles.
 */

#include "core/id.h"

struct walk {
	uint64_t session; /* the next one has this number, or the lowest above it */
	uint32_t id; /* likewise; 0: the session itself */
};

/*
 * Gives the next session or id, and moves WALK behind it. *RET_ID is NULL for a session itself. False: there
 * are no more.
 */
bool walk_next(struct walk *walk, const struct core *core, struct session **ret_session,
	       struct id **ret_id);

/* The session of that number; NULL: there is none. */
struct session *core_find_session(const struct core *core, uint64_t number);
