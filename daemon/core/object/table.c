/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "core/object/session.h"
#include "core/object/table.h"

static struct id *next_of(const struct handles *handles, uint32_t *last)
{
	uint32_t next = handles_next(handles, *last + 1);

	*last = next > 0 ? next : (uint32_t)(handles->n_pages * HANDLES_PAGE);
	return handles_get(handles, next);
}

struct id *table_next(struct session *session, struct table_walk *walk)
{
	struct id *id = next_of(&session->requests, &walk->request);

	return id ?: next_of(&session->ids, &walk->id);
}

int table_find(struct session *session, uint32_t handle, struct id **ret, struct failure *failure)
{
	struct id *id =
		handle >= SESSION_FIRST_REQUEST ?
			handles_get(&session->requests, handle - SESSION_FIRST_REQUEST + 1) :
			handles_get(&session->ids, handle);

	if (!id)
		return failure_set(failure, STATUS_NO_SUCH_ID, "this session has no id %u", handle);
	*ret = id;
	return 0;
}

int table_add(struct session *session, struct id *id, uint32_t handle, uint32_t *ret,
	      struct failure *failure)
{
	unsigned max = session->core->settings.max_ids_per_session;
	int r;

	if (session->ids.n_used + session->requests.n_used >= max)
		return failure_set(failure, STATUS_QUOTA,
				   "the session is at its limit of %u ids (IdsPerSession=)", max);
	if (handle > max)
		return failure_set(failure, STATUS_BAD_REQUEST,
				   "the number of an id must be at most %u, but is %u", max,
				   handle);
	if (handle > 0) {
		r = handles_add_at(&session->ids, id, handle);
	} else {
		r = handles_add(&session->requests, id, &handle);
		handle += SESSION_FIRST_REQUEST - 1;
	}
	if (r == -EEXIST)
		return failure_set(failure, STATUS_BAD_REQUEST, "id %u is in use", handle);
	if (r == 0)
		*ret = handle;
	return failure_errno(failure, r);
}

int table_add_again(struct session *session, struct id *id, uint32_t handle, uint32_t *ret,
		    struct failure *failure)
{
	bool is_request = handle >= SESSION_FIRST_REQUEST;

	*ret = handle;
	return failure_errno(
		failure, handles_add_at(is_request ? &session->requests : &session->ids, id,
					is_request ? handle - SESSION_FIRST_REQUEST + 1 : handle));
}

void table_remove(struct session *session, uint32_t handle)
{
	if (handle >= SESSION_FIRST_REQUEST)
		handles_remove(&session->requests, handle - SESSION_FIRST_REQUEST + 1);
	else
		handles_remove(&session->ids, handle);
}
