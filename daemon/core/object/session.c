/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>
#include <string.h>

#include "core/object/restriction.h"
#include "core/object/session.h"
#include "proto/text.h"
#include "takeover/ledger.h"

uint64_t session_begin_request(struct session *session)
{
	session->request = ++session->n_requests;
	return session->request;
}

void session_go_on_with(struct session *session, uint64_t number)
{
	session->request = number;
}

void session_count_refusal(struct session *session, enum status status)
{
	session->core->metrics.refusals[status]++;
}

void session_wait(struct session *session, struct list *waiting)
{
	list_remove(&session->waiting);
	list_insert(waiting, &session->waiting);
}

/* Moves the sessions to another list first: a session that begins to wait again must not be resumed twice. */
void session_resume_all(struct list *waiting)
{
	struct list resumed, *l;

	list_init(&resumed);
	while ((l = list_first(waiting))) {
		list_remove(l);
		list_insert(&resumed, l);
	}
	while ((l = list_first(&resumed))) {
		struct session *session = container_of(l, struct session, waiting);

		list_remove(l);
		session->ops->resume(session->userdata, /* handle= */ 0);
	}
}

void session_set_keeps_leases(struct session *session, bool keeps)
{
	session->keeps_leases = keeps;
	session_save(session);
}

struct session *session_find_replies(const struct session *session)
{
	struct session *to = roster_get(&session->core->by_number, session->replies_to);

	return to && to->opened && !to->ending && !to->lingers ? to : NULL;
}

/*
 * The number is the client's word, so all has to agree that the kernel has said about both: nobody can make the broker
 * send to a session of another process.
 */
bool session_set_replies_to(struct session *session, uint64_t number)
{
	const struct identity *own = &session->identity, *other;
	struct session *to;

	session->replies_to = number;
	to = number ? session_find_replies(session) : NULL;
	other = to ? &to->identity : NULL;
	if (!to || to == session || to->replies_to || own->pid <= 0 || other->pid != own->pid ||
	    other->uid != own->uid || to->restriction != session->restriction)
		session->replies_to = 0;
	session_save(session);
	return session->replies_to != 0;
}

void session_set_end_reason(struct session *session, const char *why)
{
	text_copy(session->end_reason, sizeof(session->end_reason), why);
}

/* Where a row has the name of each workload, and whether the name is known. */
static const struct {
	size_t name, size, known;
} places[_WORKLOAD_MAX] = {
#define PLACE(member)                                                   \
	{                                                               \
		offsetof(struct ledger_session, member),                \
			sizeof(((struct ledger_session *)0)->member),   \
			offsetof(struct ledger_session, member##_known) \
	}
	[WORKLOAD_UNIT] = PLACE(unit),     [WORKLOAD_CONTAINER] = PLACE(container),
	[WORKLOAD_POD] = PLACE(pod),       [WORKLOAD_JOB] = PLACE(job),
	[WORKLOAD_CGROUP] = PLACE(cgroup),
#undef PLACE
};

/* A name that is too long counts as not known after a restart. */
static void save_workload(struct ledger_session *row, const struct workload *workload)
{
	for (int i = 0; i < _WORKLOAD_MAX; i++) {
		const char *name = workload->names[i];
		bool known = name && strlen(name) < places[i].size;

		((uint8_t *)row)[places[i].known] = known;
		if (known)
			strcpy((char *)row + places[i].name, name);
	}
}

void session_load_workload(struct session *session, const struct ledger_session *row)
{
	struct workload *ret = &session->identity.workload;

	for (int i = 0; i < _WORKLOAD_MAX; i++)
		if (((const uint8_t *)row)[places[i].known] && !ret->names[i])
			ret->names[i] =
				strndup((const char *)row + places[i].name, places[i].size - 1);
}

/* If a restriction has no row, its number is not found after a restart. Then the session ends with this process. */
static void save_permits(const struct session *session)
{
	struct ledger_session *row = session->row;
	unsigned permits = session->opened ? session->permits : 0;
	bool apart = session->replies_to != 0, restricted = session->restriction != NULL;

	row->restriction = restricted ? session->restriction->number : 0;
	row->released = session->released;
	row->confirms = session->confirms;
	row->keeps_leases = session->keeps_leases;
	row->replies_to = session->replies_to;
	row->apart_permits = apart ? permits : 0;
	row->restricted_permits = !apart && restricted ? permits : 0;
	row->permits = !apart && !restricted ? permits : 0;
}

void session_save(struct session *session)
{
	const struct identity *identity = &session->identity;
	struct ledger_session *row = session->row;

	if (!row)
		return;
	row->since_ms = session->since_ms;
	save_permits(session);
	row->proven = identity->proven;
	row->door = session->door;
	row->charged_uid = identity->owner.uid;
	row->charged_range = identity->owner.range;
	row->watches = session->watch != NULL || session->lends || session->serves;
	save_workload(row, &identity->workload);
	row->number = session->number;
}
