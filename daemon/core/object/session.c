/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/object/restriction.h"
#include "core/object/session.h"
#include "takeover/ledger.h"
#include "util/owner.h"

void session_begin_request(struct session *session)
{
	session->last_request++;
}

void session_wait(struct session *session, struct list *waiting)
{
	list_remove(&session->waiting);
	list_insert(waiting, &session->waiting);
}

void session_count_refusal(struct session *session, enum status status)
{
	session->core->metrics.refusals[status]++;
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
		session->ops->resume(session->userdata);
	}
}

void session_set_keeps_leases(struct session *session, bool keeps)
{
	session->keeps_leases = keeps;
	session_save(session);
}

void session_set_end_reason(struct session *session, const char *why)
{
	snprintf(session->end_reason, sizeof(session->end_reason), "%s", why);
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
static void save_restricted(const struct session *session)
{
	struct ledger_session *row = session->row;

	row->restriction = session->restriction ? session->restriction->number : 0;
	row->released = session->released;
	row->confirms = session->confirms;
	row->keeps_leases = session->keeps_leases;
	row->restricted_permits = session->opened && session->restriction ? session->permits : 0;
}

void session_save(struct session *session)
{
	const struct identity *identity = &session->identity;
	struct ledger_session *row = session->row;

	if (!row)
		return;
	row->since_ms = session->since_ms;
	row->permits = session->opened && !session->restriction ? session->permits : 0;
	save_restricted(session);
	row->proven = identity->proven;
	row->door = session->door;
	row->charged_uid = owner_of(session->identity.uid);
	row->watches = session->watch != NULL || session->lends || session->serves;
	save_workload(row, &identity->workload);
	row->number = session->number;
}
