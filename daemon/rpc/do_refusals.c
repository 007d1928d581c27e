/* SPDX-License-Identifier: BSD-2-Clause */

#include "core/admit/refused.h"
#include "proto/addr.h"
#include "proto/address.h"
#include "proto/pkey.h"
#include "rpc/call.h"
#include "rpc/convert.h"

/* The requests about what was refused, which is sent one page at a time. */

#define MAX_ROWS 8 /* in a reply: they fit into a packet even with the longest texts */

struct out_row {
	Rdmabroker__GetRefusalsResult__Row row;
	Rdmabroker__Workload workload;
	struct out_address {
		Rdmabroker__Address address;
		struct sockaddr_storage addr;
	} local, peer;
	struct ledger_refused copy; /* the row of the table can be freed before the reply is sent */
};

struct space {
	Rdmabroker__GetRefusalsResult result;
	Rdmabroker__Learned learned;
	struct out_row rows[MAX_ROWS];
	Rdmabroker__GetRefusalsResult__Row *pointers[MAX_ROWS];
};

static const char *const outcomes[_REFUSED_OUTCOME_MAX] = {
	[REFUSED_REJECTED] = "rejected", [REFUSED_NO_RULE] = "no-rule",
	[REFUSED_BUSY] = "busy",         [REFUSED_WARNED] = "warned",
	[REFUSED_QUOTA] = "quota",       [REFUSED_QUOTA_WARNED] = "quota-warned",
};

static Rdmabroker__Address *out_address(struct out_address *space, const struct ledger_prefix *in)
{
	addr_set_host(&space->addr, in->family, in->address);
	return address_pack(&space->address, (struct sockaddr *)&space->addr);
}

static Rdmabroker__GetRefusalsResult__Row *out_row(struct out_row *space,
						   const struct ledger_refused *in)
{
	Rdmabroker__GetRefusalsResult__Row *out = &space->row;
	struct ledger_refused *copy = &space->copy;

	rdmabroker__get_refusals_result__row__init(out);
	*copy = *in;
	out->number = copy->number;
	out->operation = (char *)policy_operation_to_string((enum policy_operation)copy->operation);
	out->outcome = (char *)outcomes[copy->outcome];
	out->uid = copy->uid;
	out->unit = copy->unit;
	if (copy->container[0] || copy->pod[0] || copy->job[0]) {
		rdmabroker__workload__init(&space->workload);
		space->workload.container = copy->container;
		space->workload.pod = copy->pod;
		space->workload.job = copy->job;
		out->workload = &space->workload;
	}
	out->name = copy->name;
	out->port = copy->port;
	out->any_port = copy->port_kind == REFUSED_PORT_ANY;
	out->local = out_address(&space->local, &copy->local);
	out->peer = out_address(&space->peer, &copy->peer);
	out->peer_prefix = copy->peer.bits;
	out->device = copy->device;
	out->port_space = copy->ps;
	out->first_ms = copy->first_ms;
	out->last_ms = copy->last_ms;
	out->count = copy->n;
	out->rule = copy->rule;
	out->gids = copy->gids;
	out->n_gids = copy->n_gids;
	out->pkey = copy->pkey ? copy->pkey | PKEY_FULL : 0;
	return out;
}

int do_get_refusals(struct call *call)
{
	const struct core *core = session_get_core(call->session);
	uint64_t next = call->request->get_refusals->first;
	struct space *space = SPACE(call, struct space);
	Rdmabroker__GetRefusalsResult *result = &space->result;
	const struct ledger_refused *row;

	rdmabroker__get_refusals_result__init(result);
	result->rows = space->pointers;
	while ((row = core_refused_from(core, next)) && result->n_rows < MAX_ROWS) {
		space->pointers[result->n_rows] = out_row(&space->rows[result->n_rows], row);
		result->n_rows++;
		next = row->number + 1;
	}
	out_learned(&space->learned, core);
	result->learned = &space->learned;
	result->more = row != NULL;
	result->next = next;
	return REPLY(call, get_refusals, GET_REFUSALS, result);
}

int do_clear_refusals(struct call *call)
{
	core_clear_refused(session_get_core(call->session));
	return 0;
}
