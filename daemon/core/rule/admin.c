/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "core/object/id.h"
#include "core/object/table.h"
#include "core/rule/admin.h"
#include "core/rule/revoke.h"
#include "core/verbs/group.h"

/* The first id whose handle is at least HANDLE. FIRST is the handle of the number 1 in IDS. */
static struct id *id_from(const struct handles *ids, uint32_t first, uint32_t handle)
{
	return handles_get(ids, handles_next(ids, handle > first ? handle - first + 1 : 1));
}

bool admin_next(struct admin_cursor *cursor, const struct core *core, struct session **ret_session,
		struct id **ret_id)
{
	struct session *session;
	struct id *id = NULL;

	while ((session = roster_from(&core->by_number, cursor->session))) {
		/* The cursor's session is gone: continue with the next one. */
		if (session->number != cursor->session)
			*cursor = (struct admin_cursor){ .session = session->number };
		if (cursor->id > 0) {
			id = id_from(&session->ids, 1, cursor->id);
			if (!id)
				id = id_from(&session->requests, SESSION_FIRST_REQUEST, cursor->id);
			if (!id) {
				*cursor = (struct admin_cursor){ .session = session->number + 1 };
				continue;
			}
		}
		cursor->id = id ? id->handle + 1 : 1;
		*ret_session = session;
		*ret_id = id;
		return true;
	}
	return false;
}

#define ADMIN_TEXT 160

/* "uid 0, pid 77", with the container, for a rule can let somebody in a container administer. */
static const char *describe(const struct session *by, char ret[ADMIN_TEXT])
{
	const char *container = by->identity.workload.names[WORKLOAD_CONTAINER];
	int n = snprintf(ret, ADMIN_TEXT, "uid %u, pid %d", by->identity.uid, by->identity.pid);

	if (by->door == DOOR_COMMON && !container)
		snprintf(ret + n, ADMIN_TEXT - (size_t)n, ", perhaps in a container");
	else if (container && container[0])
		snprintf(ret + n, ADMIN_TEXT - (size_t)n, ", container %s", container);
	return ret;
}

/* NULL: there is none, as FAILURE says. */
static struct session *find_session(const struct session *by, uint64_t number,
				    struct failure *failure)
{
	struct session *session = roster_get(&by->core->by_number, number);

	if (!session)
		failure_set(failure, STATUS_NO_SUCH_ID, "there is no session %llu",
			    (unsigned long long)number);
	return session;
}

int admin_kick_session(struct session *by, uint64_t number, struct failure *failure)
{
	struct session *session = find_session(by, number, failure);
	char why[96], who[ADMIN_TEXT];

	if (session == by)
		return failure_set(failure, STATUS_BAD_REQUEST, "session %llu cannot end itself",
				   (unsigned long long)number);
	if (!session)
		return STATUS_NO_SUCH_ID;
	snprintf(why, sizeof(why), "ended by uid %u, pid %d", by->identity.uid, by->identity.pid);
	/* Not rate-limited: each action of an admin is logged. */
	log_notice("Session %llu, uid %u, pid %d is ended by %s.", (unsigned long long)number,
		   session->identity.uid, session->identity.pid, describe(by, who));
	session->ops->end(session->userdata, why);
	return 0;
}

int admin_kick_id(struct session *by, uint64_t number, uint32_t handle, struct failure *failure)
{
	struct session *session = find_session(by, number, failure);
	struct failure why;
	char who[ADMIN_TEXT];
	struct id *id;
	int r;

	if (!session)
		return STATUS_NO_SUCH_ID;
	if (table_find(session, handle, &id, failure) != 0)
		return failure_set(failure, STATUS_NO_SUCH_ID, "session %llu has no id %u",
				   (unsigned long long)number, handle);
	switch (id->state) {
	case ID_DISCONNECTING ... ID_REVOKED:
		return failure_set(failure, STATUS_BAD_STATE, "kick: id %u is already %s", handle,
				   id_state_to_string(id->state));
	default:
		break;
	}
	r = group_leave_all(id, by);
	if (r != 0)
		return r;
	log_notice("Session %llu, uid %u, pid %d: id %u, %s, is ended by %s.",
		   (unsigned long long)number, session->identity.uid, session->identity.pid, handle,
		   id_state_to_string(id->state), describe(by, who));
	failure_set(&why, STATUS_DENIED, "ended by an admin");
	switch (id->state) {
	case ID_IDLE ... ID_ADDR_QUERY:
		revoke_id(id, &why);
		break;
	default:
		revoke_connection(id, &why, "ended by an admin");
		break;
	}
	return 0;
}

void admin_set_draining(struct session *by, bool draining)
{
	struct core *core = by->core;
	char who[ADMIN_TEXT];

	if (core->draining == draining)
		return;
	core->draining = draining;
	if (draining)
		log_notice("Draining started by %s: new work is refused; %u connections remain.",
			   describe(by, who), core->n_connections);
	else
		log_notice("Draining ended by %s: new work is accepted.", describe(by, who));
}
