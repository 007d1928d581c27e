/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/admin.h"
#include "client/lib/admin/replies.h"
#include "client/lib/admin/who.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/message.h"
#include "proto/address.h"

/* What was refused. */

static void in_refusal(struct rdmabroker_refusal *ret, const Rdmabroker__GetRefusalsResult__Row *in)
{
	*ret = (struct rdmabroker_refusal){
		.operation = in->operation,
		.outcome = in->outcome,
		.any_port = in->any_port,
		.port = (uint16_t)in->port,
		.ps = (enum rdmabroker_port_space)in->port_space,
		.peer_prefix = in->peer_prefix,
		.name = message_get_text(in->name),
		.device = message_get_text(in->device),
		.rule = message_get_text(in->rule),
		.count = in->count,
		.first_ms = in->first_ms,
		.last_ms = in->last_ms,
		.pkey = (uint16_t)in->pkey,
	};
	who_get(&ret->who, in->uid, in->unit, in->workload);
	ret->who.gids = in->gids;
	ret->who.n_gids = in->n_gids;
	if (in->local)
		address_unpack(&ret->local, in->local);
	if (in->peer)
		address_unpack(&ret->peer, in->peer);
}

static int next(const Rdmabroker__Reply *reply, Rdmabroker__Request *request)
{
	const Rdmabroker__GetRefusalsResult *in = reply->get_refusals;
	bool goes_on = in->n_rows > 0 && in->next > request->get_refusals->first;

	request->get_refusals->first = in->next;
	return !in->more ? 0 : goes_on ? 1 : -EPROTO;
}

struct rdmabroker_learned learned_get(const Rdmabroker__Learned *in)
{
	return in ? (struct rdmabroker_learned){ .since_ms = in->since_ms,
						 .n_rows = in->rows,
						 .n_left = in->left,
						 .left_ms = in->left_ms } :
		    (struct rdmabroker_learned){ 0 };
}

int rdmabroker_clear_refusals(struct rdmabroker *session)
{
	REQUEST(request, m, ClearRefusals, CLEAR_REFUSALS, clear_refusals);

	return call_wait(&session->wire, "clear_refusals", &request);
}

int rdmabroker_get_refusals(struct rdmabroker *session, struct rdmabroker_refusals **ret)
{
	REQUEST(request, m, GetRefusals, GET_REFUSALS, get_refusals);
	struct rdmabroker_refusals *refusals;
	struct replies replies;
	size_t n = 0;
	int r = replies_get(&replies, session, "get_refusals", &request,
			    RDMABROKER__REPLY__RESULT_GET_REFUSALS, next);

	if (r < 0)
		return r;
	for (size_t i = 0; i < replies.n; i++)
		n += replies.list[i]->reply->get_refusals->n_rows;
	refusals = replies_keep(&replies, sizeof(*refusals) + n * sizeof(*refusals->list));
	if (!refusals)
		return -ENOMEM;
	refusals->list = (void *)(refusals + 1);
	refusals->learned = learned_get(replies.list[0]->reply->get_refusals->learned);
	for (size_t i = 0; i < replies.n; i++) {
		const Rdmabroker__GetRefusalsResult *in = replies.list[i]->reply->get_refusals;

		for (size_t k = 0; k < in->n_rows; k++)
			in_refusal(&refusals->list[refusals->n++], in->rows[k]);
	}
	*ret = refusals;
	return 0;
}
