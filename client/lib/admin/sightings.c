/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/admin.h"
#include "client/lib/admin/replies.h"
#include "client/lib/admin/who.h"
#include "client/lib/wire/message.h"

/* Who has used RDMA without the broker. */

static void in_sighting(struct rdmabroker_sighting *ret,
			const Rdmabroker__GetSightingsResult__Row *in)
{
	*ret = (struct rdmabroker_sighting){
		.name = message_get_text(in->name),
		.had_ids = in->had_ids,
		.first_ms = in->first_ms,
		.last_ms = in->last_ms,
	};
	who_get(&ret->who, in->uid, in->unit, /* workload= */ NULL);
}

static int next(const Rdmabroker__Reply *reply, Rdmabroker__Request *request)
{
	const Rdmabroker__GetSightingsResult *in = reply->get_sightings;
	bool goes_on = in->n_rows > 0 && in->next > request->get_sightings->first;

	request->get_sightings->first = in->next;
	return !in->more ? 0 : goes_on ? 1 : -EPROTO;
}

int rdmabroker_get_sightings(struct rdmabroker *session, struct rdmabroker_sightings **ret)
{
	REQUEST(request, m, GetSightings, GET_SIGHTINGS, get_sightings);
	struct rdmabroker_sightings *sightings;
	struct replies replies;
	size_t n = 0;
	int r = replies_get(&replies, session, "get_sightings", &request,
			    RDMABROKER__REPLY__RESULT_GET_SIGHTINGS, next);

	if (r < 0)
		return r;
	for (size_t i = 0; i < replies.n; i++)
		n += replies.list[i]->reply->get_sightings->n_rows;
	sightings = replies_keep(&replies, sizeof(*sightings) + n * sizeof(*sightings->list));
	if (!sightings)
		return -ENOMEM;
	sightings->list = (void *)(sightings + 1);
	for (size_t i = 0; i < replies.n; i++) {
		const Rdmabroker__GetSightingsResult *in = replies.list[i]->reply->get_sightings;

		sightings->since_ms = in->since_ms;
		sightings->sampled_ms = in->sampled_ms;
		for (size_t k = 0; k < in->n_rows; k++)
			in_sighting(&sightings->list[sightings->n++], in->rows[k]);
	}
	*ret = sightings;
	return 0;
}
