/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/admin.h"
#include "client/lib/admin/replies.h"
#include "client/lib/admin/who.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "proto/address.h"

/* The calls get_list (for observers), kick and drain (for admins). */

static void in_session(struct rdmabroker_listed_session *ret, const Rdmabroker__ListedSession *in)
{
	*ret = (struct rdmabroker_listed_session){
		.number = in->number,
		.rule = message_get_text(in->rule),
		.age_ms = in->age_ms,
		.n_ids = in->ids,
		.n_leases = in->leases,
		.restriction = message_get_text(in->restriction),
		.lingers = in->lingers,
		.denied = message_get_text(in->denied),
	};
	who_get(&ret->who, in->uid, in->unit, in->workload);
	ret->who.pid = (int)in->pid;
	ret->who.charged_uid = in->charged_uid ?: in->uid;
}

static void in_id(struct rdmabroker_listed_id *ret, const Rdmabroker__ListedId *in)
{
	*ret = (struct rdmabroker_listed_id){
		.id = in->id,
		.state = in->state,
		.age_ms = in->age_ms,
		.ps = (enum rdmabroker_port_space)in->port_space,
		.qp_num = in->qp_num,
		.tos = in->tos,
		.rule = message_get_text(in->rule),
		.denied = message_get_text(in->denied),
		.pkey = (uint16_t)in->pkey,
	};
	who_get_peer(&ret->who_peer, in->peer_identity, in->peer_unknown);
	if (!in->info)
		return;
	ret->device = message_get_text(in->info->device);
	address_unpack(&ret->local, in->info->local);
	address_unpack(&ret->peer, in->info->peer);
}

/* The broker has to send the ids in the order of their sessions. False: an id is out of order, or has no session. */
static bool fill(struct rdmabroker_list *list, const struct replies *replies)
{
	const struct rdmabroker_listed_session *session = list->sessions, *end;

	for (size_t i = 0; i < replies->n; i++) {
		const Rdmabroker__ListResult *in = replies->list[i]->reply->list;

		for (size_t k = 0; k < in->n_sessions; k++)
			in_session(&list->sessions[list->n_sessions++], in->sessions[k]);
	}
	end = list->sessions + list->n_sessions;
	for (size_t i = 0; i < replies->n; i++) {
		const Rdmabroker__ListResult *in = replies->list[i]->reply->list;

		for (size_t k = 0; k < in->n_ids; k++) {
			while (session < end && session->number != in->ids[k]->session)
				session++;
			if (session == end)
				return false;
			in_id(&list->ids[list->n_ids], in->ids[k]);
			list->ids[list->n_ids++].session = session;
		}
	}
	return true;
}

static int next(const Rdmabroker__Reply *reply, Rdmabroker__Request *request)
{
	const Rdmabroker__ListResult *in = reply->list;
	Rdmabroker__List *m = request->list;
	bool goes_on = in->n_sessions + in->n_ids > 0 &&
		       replies_is_further(in->next_session, in->next_id, m->session, m->id);

	m->session = in->next_session;
	m->id = in->next_id;
	return !in->more ? 0 : goes_on ? 1 : -EPROTO;
}

int rdmabroker_get_list(struct rdmabroker *session, uint64_t dry_run, struct rdmabroker_list **ret)
{
	REQUEST(request, m, List, LIST, list);
	size_t n_sessions = 0, n_ids = 0;
	struct rdmabroker_list *list;
	struct replies replies;
	int r;

	m.dry_run = dry_run;
	r = replies_get(&replies, session, "get_list", &request, RDMABROKER__REPLY__RESULT_LIST,
			next);
	if (r < 0)
		return r;
	for (size_t i = 0; i < replies.n; i++) {
		n_sessions += replies.list[i]->reply->list->n_sessions;
		n_ids += replies.list[i]->reply->list->n_ids;
	}
	list = replies_keep(&replies, sizeof(*list) + n_sessions * sizeof(*list->sessions) +
					      n_ids * sizeof(*list->ids));
	if (!list)
		return -ENOMEM;
	list->sessions = (void *)(list + 1);
	list->ids = (void *)(list->sessions + n_sessions);
	if (!fill(list, &replies)) {
		rdmabroker_free(list);
		return fail(EPROTO, "get_list: the broker's reply has an id without its session");
	}
	*ret = list;
	return 0;
}

int rdmabroker_kick(struct rdmabroker *session, uint64_t number, uint32_t id)
{
	REQUEST(request, m, Kick, KICK, kick);

	m.session = number;
	m.id = id;
	return call_wait(&session->wire, "kick", &request);
}

int rdmabroker_drain(struct rdmabroker *session, bool cancel)
{
	REQUEST(request, m, Drain, DRAIN, drain);

	m.cancel = cancel;
	return call_wait(&session->wire, cancel ? "undrain" : "drain", &request);
}
