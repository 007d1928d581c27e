/* SPDX-License-Identifier: BSD-2-Clause */

#include "core/facts/sighting.h"
#include "rpc/call.h"

/* The request for who has used RDMA without the broker, one page at a time. */

#define MAX_ROWS 32 /* in a reply; rdmabroker.proto promises this number */

struct space {
	Rdmabroker__GetSightingsResult result;
	struct out_row {
		Rdmabroker__GetSightingsResult__Row row;
		struct ledger_sighting
			copy; /* the row of the table can be freed before the reply is sent */
	} rows[MAX_ROWS];
	Rdmabroker__GetSightingsResult__Row *pointers[MAX_ROWS];
};

static Rdmabroker__GetSightingsResult__Row *out_row(struct out_row *space,
						    const struct ledger_sighting *in)
{
	Rdmabroker__GetSightingsResult__Row *out = &space->row;

	rdmabroker__get_sightings_result__row__init(out);
	space->copy = *in;
	out->uid = in->uid;
	out->unit = space->copy.unit;
	out->name = space->copy.name;
	out->had_ids = in->had_ids;
	out->first_ms = in->first_ms;
	out->last_ms = in->last_ms;
	return out;
}

int do_get_sightings(struct call *call)
{
	const struct sightings *sightings = core_get_sightings(session_get_core(call->session));
	const struct ledger_sampling sampling = sightings_get_sampling(sightings);
	uint64_t next = call->request->get_sightings->first;
	struct space *space = SPACE(call, struct space);
	Rdmabroker__GetSightingsResult *result = &space->result;
	const struct ledger_sighting *row;

	rdmabroker__get_sightings_result__init(result);
	result->rows = space->pointers;
	while ((row = sightings_from(sightings, next)) && result->n_rows < MAX_ROWS) {
		space->pointers[result->n_rows] = out_row(&space->rows[result->n_rows], row);
		result->n_rows++;
		next = row->number + 1;
	}
	result->more = row != NULL;
	result->next = next;
	result->since_ms = sampling.since_ms;
	result->sampled_ms = sampling.last_ms;
	return REPLY(call, get_sightings, GET_SIGHTINGS, result);
}
