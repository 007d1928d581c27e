/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/walk.h"

/* The first session whose number is NUMBER or more: the list is in order of the numbers. */
static struct session *session_from(const struct core *core, uint64_t number)
{
	struct list *l;

	list_for_each(l, &core->sessions) {
		struct session *session = container_of(l, struct session, link);

		if (session->number >= number)
			return session;
	}
	return NULL;
}

/* The first id whose handle is HANDLE or more. FIRST is the handle of the table's first entry. */
static struct id *id_from(const struct handles *ids, uint32_t first, uint32_t handle)
{
	uint32_t i = handle > first ? handle - first : 0;

	for (; i < ids->n_allocated; i++)
		if (ids->objects[i])
			return ids->objects[i];
	return NULL;
}

bool walk_next(struct walk *walk, const struct core *core, struct session **ret_session,
	       struct id **ret_id)
{
	struct session *session = session_from(core, walk->session);
	struct id *id = NULL;

	for (; session; session = session_from(core, walk->session)) {
		/* The session that the walk was in is gone. */
		if (session->number != walk->session)
			*walk = (struct walk){ .session = session->number };
		if (walk->id > 0) {
			id = id_from(&session->ids, 1, walk->id);
			if (!id)
				id = id_from(&session->requests, SESSION_FIRST_REQUEST, walk->id);
			if (!id) {
				*walk = (struct walk){ .session = session->number + 1 };
				continue;
			}
		}
		walk->id = id ? id->handle + 1 : 1;
		*ret_session = session;
		*ret_id = id;
		return true;
	}
	return false;
}

struct session *core_find_session(const struct core *core, uint64_t number)
{
	struct session *session = session_from(core, number);

	return session && session->number == number ? session : NULL;
}
