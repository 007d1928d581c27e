/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "core/object/id.h"
#include "core/object/listener.h"
#include "takeover/ledger.h"

void id_own_fabric(struct id *id, struct fabric_id *fabric)
{
	id->fabric = fabric;
	fabric_id_set_owner(fabric, id->session->identity.owner, id->session->core->on_event, id);
}

void id_set_peerid(struct id *id, struct peerid *peerid)
{
	who_set(&id->who, peerid);
	if (id->row)
		who_save(&id->who, id->row);
}

void id_forget_peerid(struct id *id)
{
	who_forget(&id->who);
	if (id->row)
		who_save(&id->who, id->row);
}

int id_set_option(struct id *id, enum option option, int value)
{
	int r = options_set(&id->options, id->fabric, option, value);

	if (r == 0 && id->row)
		options_save(&id->options, id->row);
	return r;
}

int id_refuse_state(struct id *id, const char *verb, struct failure *failure)
{
	return failure_set(failure, STATUS_BAD_STATE, "%s: id %u is %s", verb, id->handle,
			   id_state_to_string(id->state));
}

static void save_addresses(struct id *id)
{
	struct ledger_id *row = id->row;
	struct fabric_id_info info;
	size_t len;

	if (!id->fabric)
		return;
	fabric_id_get_info(id->fabric, &info);
	route_get_old_info(&id->route, &info);
	row->any_port = id->any_port;
	row->local = info.local;
	row->peer = info.peer;
	row->port_num = info.port_num;
	len = info.device ? strnlen(info.device, sizeof(row->device) - 1) : 0;
	memcpy(row->device, info.device ?: "", len);
	row->device[len] = 0;
}

void id_save(struct id *id)
{
	struct ledger_id *row = id->row;

	if (!row)
		return;
	row->since_ms = id->since_ms;
	row->handle = id->handle;
	row->ps = (uint16_t)id->ps;
	save_addresses(id);
	options_save(&id->options, row);
	who_save(&id->who, row);
	id_save_state(id);
	row->session = id->session->number;
}

/*
 * An id gets its addresses when it is bound, and when the address of its peer is resolved. Other steps do not change
 * them, and copying them would be most of the work.
 */
void id_save_state(struct id *id)
{
	struct ledger_id *row = id->row;

	if (!row)
		return;
	if (IN(id->state) &
	    (IN(ID_BOUND) | IN(ID_LISTENING) | IN(ID_ADDR_QUERY) | IN(ID_ADDR_RESOLVED)))
		save_addresses(id);
	if (id->listener)
		row->backlog = id->listener->backlog->max;
	handshake_save(&id->handshake, row);
	/* The state is last: a process that dies here must not have said that a connect was sent, and not which. */
	route_save(&id->route, id->state, row);
	if (id->state != ID_REQUEST && id->handshake.request_row)
		handshake_forget_row(&id->handshake, id->session->core->keep.ledger);
}

bool id_save_request(struct id *id)
{
	return !id->row || handshake_save_request(&id->handshake, id->session->core->keep.ledger,
						  id->session->number, id->handle);
}

void id_save_untold(struct id *id, enum rdma_cm_event_type type)
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

void id_save_told(struct id *id)
{
	if (id->row) {
		id->row->untold = 0;
		id->row->told = 1;
	}
}

void id_load(struct id *id, const struct ledger_id *row)
{
	id->since_ms = row->since_ms;
	id->any_port = row->any_port;
	options_load(&id->options, row);
	handshake_load(&id->handshake, row);
	who_load(&id->who, row);
}
