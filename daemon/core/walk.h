/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A walk over all sessions and their ids that can be left and taken up again, while sessions and ids come
 * and go: the place is kept as numbers. A session comes before its ids, which come by their handles.
 */

#include "core/id.h"

struct walk {
	uint64_t session; /* the number of what comes next, or the next one behind it */
	uint32_t id; /* likewise; 0: the session itself */
};

/*
 * The next one, and WALK is behind it. *RET_ID is NULL where it is the session itself. False: that was
 * all.
 */
bool walk_next(struct walk *walk, const struct core *core, struct session **ret_session,
	       struct id **ret_id);

/* The session of that number; NULL: there is none. */
struct session *core_find_session(const struct core *core, uint64_t number);
