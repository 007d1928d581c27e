/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>
#include <string.h>

#include "core/ahead.h"
#include "core/id.h"
#include "core/lease.h"
#include "core/listener.h"
#include "core/record.h"
#include "core/restriction.h"
#include "core/session.h"
#include "keep/ledger.h"
#include "util/owner.h"

#define IN(state) (1u << (state))

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
static void record_workload(struct ledger_session *row, const struct workload *workload)
{
	for (int i = 0; i < _WORKLOAD_MAX; i++) {
		const char *name = workload->names[i];
		bool known = name && strlen(name) < places[i].size;

		((uint8_t *)row)[places[i].known] = known;
		if (known)
			strcpy((char *)row + places[i].name, name);
	}
}

void record_restore_workload(const struct ledger_session *row, struct workload *ret)
{
	for (int i = 0; i < _WORKLOAD_MAX; i++)
		if (((const uint8_t *)row)[places[i].known] && !ret->names[i])
			ret->names[i] =
				strndup((const char *)row + places[i].name, places[i].size - 1);
}

/* If a restriction has no row, its number is not found after a restart. Then the session ends with this process. */
static void record_restricted(const struct session *session)
{
	struct ledger_session *row = session->row;

	row->restriction = session->restriction ? session->restriction->number : 0;
	row->released = session->released;
	row->confirms = session->confirms;
	row->keeps_leases = session->keeps_leases;
	row->restricted_permits = session->opened && session->restriction ? session->permits : 0;
}

void record_session(struct session *session)
{
	const struct identity *identity = &session->identity;
	struct ledger_session *row = session->row;

	if (!row)
		return;
	row->since_ms = session->since_ms;
	row->permits = session->opened && !session->restriction ? session->permits : 0;
	record_restricted(session);
	row->proven = identity->proven;
	row->door = session->door;
	row->charged_uid = owner_of(session->identity.uid);
	row->watches = session->watch != NULL || session->lends || session->serves;
	record_workload(row, &identity->workload);
	row->number = session->number;
}

void record_restriction(struct restriction *restriction)
{
	struct ledger_restriction *row = restriction->row;

	_Static_assert(sizeof(row->text) == RESTRICTION_TEXT_MAX, "the text must fit");
	if (!row)
		return;
	row->parent = restriction->parent ? restriction->parent->number : 0;
	row->max_ids = restriction->max_ids;
	strcpy(row->text, restriction->text);
	row->number = restriction->number;
}

#define LEASES_MAX (LEDGER_LEASES + LEDGER_MORE_LEASES)

bool record_reserve_lease(struct session *session)
{
	unsigned n = lease_count(session);

	if (!session->row || n < LEDGER_LEASES)
		return true;
	if (n < LEASES_MAX && !session->more_leases)
		session->more_leases = ledger_add_leases(session->core->keep.ledger);
	return n < LEASES_MAX && session->more_leases;
}

void record_leases(struct session *session)
{
	struct ledger_lease leases[LEASES_MAX];
	struct ledger_leases *more = session->more_leases;
	size_t n;

	if (!session->row)
		return;
	n = lease_list(session, leases, LEASES_MAX);
	memcpy(session->row->leases, leases, sizeof(session->row->leases));
	if (!more)
		return;
	if (n <= LEDGER_LEASES) {
		session->more_leases = ledger_remove_leases(session->core->keep.ledger, more);
		return;
	}
	memcpy(more->leases, leases + LEDGER_LEASES, sizeof(more->leases));
	more->session = session->number;
}

static void record_addresses(struct id *id)
{
	struct ledger_id *row = id->row;
	struct fabric_id_info info;
	size_t len;

	if (!id->fabric)
		return;
	fabric_id_get_info(id->fabric, &info);
	ahead_get_old_info(id, &info);
	row->local = info.local;
	row->peer = info.peer;
	row->port_num = info.port_num;
	len = info.device ? strnlen(info.device, sizeof(row->device) - 1) : 0;
	memcpy(row->device, info.device ?: "", len);
	row->device[len] = 0;
}

void record_id(struct id *id)
{
	struct ledger_id *row = id->row;

	if (!row)
		return;
	row->since_ms = id->since_ms;
	row->handle = id->handle;
	row->ps = (uint16_t)id->ps;
	row->tos_asked = (int16_t)id->tos_asked;
	row->tos = (int16_t)id->tos;
	row->afonly = (int16_t)id->afonly;
	row->ack_timeout = (int16_t)id->ack_timeout;
	row->passive = id->passive;
	row->reuseaddr_asked = id->reuseaddr_asked;
	row->reuseaddr = id->reuseaddr;
	record_addresses(id);
	record_state(id);
	row->session = id->session->number;
}

bool record_keeps(const struct session *session)
{
	return session->row != NULL;
}

int record_refuse(struct failure *failure, const char *what)
{
	return failure_set(failure, STATUS_QUOTA,
			   "the broker has no room for further %s that outlive its restart", what);
}

bool record_request(struct id *id)
{
	const struct fabric_event *event = id->request;
	struct ledger_request *row;

	if (!id->row)
		return true;
	row = ledger_add_request(id->session->core->keep.ledger);
	if (!row)
		return false;
	row->id = id->handle;
	row->qpn = event->conn.qp_num;
	row->qkey = event->ud.qkey;
	row->ece_vendor = event->remote_ece.vendor_id;
	row->ece_options = event->remote_ece.options;
	row->responder_resources = event->conn.responder_resources;
	row->initiator_depth = event->conn.initiator_depth;
	row->flow_control = event->conn.flow_control;
	row->retry_count = event->conn.retry_count;
	row->rnr_retry_count = event->conn.rnr_retry_count;
	row->srq = event->conn.srq;
	if (event->conn.private_data) {
		row->data_len = event->conn.private_data_len;
		memcpy(row->data, event->private_data, row->data_len);
	}
	row->session = id->session->number;
	id->request_row = row;
	return true;
}

static void forget_request(struct id *id)
{
	if (id->request_row)
		id->request_row =
			ledger_remove_request(id->session->core->keep.ledger, id->request_row);
}

/*
 * What the client knows of ID. If the route is resolved ahead, the state is further than the client knows, or, if it is
 * resolved again, less far.
 */
static enum id_state state_for_client(const struct id *id)
{
	if (!(IN(id->state) & (IN(ID_BOUND) | IN(ID_ADDR_QUERY) | IN(ID_ADDR_RESOLVED) |
			       IN(ID_ROUTE_QUERY) | IN(ID_ROUTE_RESOLVED))))
		return id->state;
	switch (id->ahead.state) {
	case AHEAD_HELD:
		return ID_ADDR_QUERY;
	case AHEAD_UNASKED:
	case AHEAD_REBIND:
		return ID_ADDR_RESOLVED;
	case AHEAD_DUE:
	case AHEAD_AGAIN:
		return ID_ROUTE_QUERY;
	case AHEAD_AGAIN_FOR_CONNECT:
		return ID_ROUTE_RESOLVED;
	default:
		return id->state;
	}
}

/*
 * An id gets its addresses when it is bound, and when the address of its peer is resolved. Other steps do not change
 * them, and copying them would be most of the work.
 */
void record_state(struct id *id)
{
	struct ledger_id *row = id->row;

	if (!row)
		return;
	if (IN(id->state) &
	    (IN(ID_BOUND) | IN(ID_LISTENING) | IN(ID_ADDR_QUERY) | IN(ID_ADDR_RESOLVED)))
		record_addresses(id);
	row->qpn = id->qpn;
	row->qp_timeout = id->qp_timeout;
	row->tos = (int16_t)id->tos;
	row->reuseaddr = id->reuseaddr;
	row->ack_timeout = (int16_t)id->ack_timeout;
	if (id->listener)
		row->backlog = id->listener->backlog->max;
	row->route = id->route_timeout_ms > 0;
	row->ahead = id->ahead.state == AHEAD_WANTED || id->ahead.state == AHEAD_HELD;
	row->held = id->held != NULL;
	row->was_asked = id->was_asked;
	row->unconfirmed = id->unconfirmed;
	row->ended_from = (uint8_t)id->ended_from;
	row->state = (uint8_t)state_for_client(id);
	if (id->state != ID_REQUEST)
		forget_request(id);
}

void record_untold(struct id *id, enum rdma_cm_event_type type)
{
	struct ledger_id *row = id->row;

	if (!row)
		return;
	if (id->session->row)
		ledger_note_set(&id->session->row->sent, 0);
	row->state_before = row->state;
	row->route_before = row->route;
	row->ahead_before = row->ahead;
	row->untold = (uint8_t)(type + 1);
}

void record_told(struct id *id)
{
	if (id->row) {
		id->row->untold = 0;
		id->row->told = 1;
	}
}
