/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/admin.h"
#include "client/lib/admin/peeridentity.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pages.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"
#include "proto/address.h"

/* The calls get_list (for observers), kick, drain and undrain (for admins). */

struct listed_id {
	struct rdmabroker_listed_id public;
	struct rdmabroker_peer_identity peer_identity; /* PUBLIC points to it, if it is known */
};

/* PUBLIC points into PAGES, the replies, which are freed together with it. */
struct list {
	struct rdmabroker_list public;
	struct page_list pages;
	size_t n_sessions, n_ids;
	struct rdmabroker_listed_session **sessions;
	struct rdmabroker_listed_id **ids; /* each is in a struct listed_id */
};

static void list_free(struct list *list)
{
	page_list_free(&list->pages);
	free(list->sessions);
	free(list->ids);
	free(list);
}

static void in_session(struct rdmabroker_listed_session *ret, const Rdmabroker__ListedSession *in)
{
	*ret = (struct rdmabroker_listed_session){
		.size = sizeof(*ret),
		.number = in->number,
		.uid = in->uid,
		.pid = (int)in->pid,
		.unit = message_get_text(in->unit),
		.rule = message_get_text(in->rule),
		.age_ms = in->age_ms,
		.n_ids = in->ids,
		.n_leases = in->leases,
		.restriction = message_get_text(in->restriction),
		.lingers = in->lingers,
		.charged_uid = in->charged_uid ?: in->uid,
		.denied = message_get_text(in->denied),
	};
	if (!in->workload)
		return;
	ret->container = message_get_text(in->workload->container);
	ret->pod = message_get_text(in->workload->pod);
	ret->job = message_get_text(in->workload->job);
	ret->cgroup = message_get_text(in->workload->cgroup);
}

static void in_id(struct rdmabroker_listed_id *ret, const Rdmabroker__ListedId *in)
{
	*ret = (struct rdmabroker_listed_id){
		.size = sizeof(*ret),
		.id = in->id,
		.state = in->state,
		.age_ms = in->age_ms,
		.ps = (enum rdmabroker_port_space)in->port_space,
		.qp_num = in->qp_num,
		.tos = in->tos,
		.rule = message_get_text(in->rule),
		.peer_unknown = message_get_text(in->peer_unknown),
		.denied = message_get_text(in->denied),
	};
	if (in->peer_identity) {
		struct rdmabroker_peer_identity *who = &((struct listed_id *)ret)->peer_identity;

		peeridentity_get(who, in->peer_identity);
		ret->peer_identity = who;
	}
	if (!in->info)
		return;
	ret->device = message_get_text(in->info->device);
	address_unpack(&ret->local, in->info->local);
	address_unpack(&ret->peer, in->info->peer);
}

/* The broker has to send the ids in the order of their sessions. False: an id is out of order, or has no session. */
static bool list_fill(struct list *list)
{
	struct rdmabroker_listed_session **session = list->sessions;
	struct rdmabroker_listed_id **id = list->ids;

	for (size_t i = 0; i < list->pages.n; i++) {
		const Rdmabroker__ListResult *in = list->pages.pages[i]->reply->list;

		for (size_t k = 0; k < in->n_sessions; k++)
			in_session(*session++, in->sessions[k]);
	}
	session = list->sessions;
	for (size_t i = 0; i < list->pages.n; i++) {
		const Rdmabroker__ListResult *in = list->pages.pages[i]->reply->list;

		for (size_t k = 0; k < in->n_ids; k++) {
			while (session < list->sessions + list->n_sessions &&
			       (*session)->number != in->ids[k]->session)
				session++;
			if (session == list->sessions + list->n_sessions)
				return false;
			in_id(*id, in->ids[k]);
			(*id++)->session = *session;
		}
	}
	return true;
}

static int get_pages(struct rdmabroker *session, struct list *list, uint64_t dry_run)
{
	REQUEST(request, m, List, LIST, list);
	struct pages pages;
	bool more, goes_on;
	int r;

	m.dry_run = dry_run;
	pages_init(&pages, &session->wire, "get_list");
	do {
		const Rdmabroker__ListResult *in;
		Rdmabroker__Frame *page;

		r = pages_get(&pages, &request, RDMABROKER__REPLY__RESULT_LIST, &page);
		if (r < 0)
			break;
		in = page->reply->list;
		more = in->more;
		goes_on = in->n_sessions + in->n_ids > 0 &&
			  pages_is_further(in->next_session, in->next_id, m.session, m.id);
		m.session = in->next_session;
		m.id = in->next_id;
		list->n_sessions += in->n_sessions;
		list->n_ids += in->n_ids;
		r = page_list_add(&list->pages, page, pages.name);
		if (r == 0 && more && !goes_on)
			r = pages_fail(&pages);
	} while (r == 0 && more);
	return r;
}

int rdmabroker_get_list(struct rdmabroker *session, struct rdmabroker_list **ret)
{
	return rdmabroker_get_list_tried(session, 0, ret);
}

int rdmabroker_get_list_tried(struct rdmabroker *session, uint64_t dry_run,
			      struct rdmabroker_list **ret)
{
	struct list *list = calloc(1, sizeof(*list));
	int r;

	if (!list)
		return fail(ENOMEM, "get_list: out of memory");
	r = get_pages(session, list, dry_run);
	if (r == 0) {
		list->sessions = sized_new_array(list->n_sessions, sizeof(**list->sessions));
		list->ids = sized_new_array(list->n_ids, sizeof(struct listed_id));
		if (!list->sessions || !list->ids)
			r = fail(ENOMEM, "get_list: out of memory");
		else if (!list_fill(list))
			r = fail(EPROTO,
				 "get_list: the broker's reply has an id without its session");
	}
	if (r < 0) {
		list_free(list);
		return r;
	}
	list->public = (struct rdmabroker_list){
		.size = sizeof(list->public),
		.n_sessions = list->n_sessions,
		.sessions = (const struct rdmabroker_listed_session *const *)list->sessions,
		.n_ids = list->n_ids,
		.ids = (const struct rdmabroker_listed_id *const *)list->ids,
	};
	*ret = &list->public;
	return 0;
}

struct rdmabroker_list *rdmabroker_free_list(struct rdmabroker_list *public)
{
	if (public)
		list_free((struct list *)public);
	return NULL;
}

int rdmabroker_kick(struct rdmabroker *session, uint64_t number, uint32_t id)
{
	REQUEST(request, m, Kick, KICK, kick);

	m.session = number;
	m.id = id;
	return call_wait(&session->wire, "kick", &request);
}

static int drain(struct rdmabroker *session, const char *name, bool cancel)
{
	REQUEST(request, m, Drain, DRAIN, drain);

	m.cancel = cancel;
	return call_wait(&session->wire, name, &request);
}

int rdmabroker_drain(struct rdmabroker *session)
{
	return drain(session, "drain", /* cancel= */ false);
}

int rdmabroker_undrain(struct rdmabroker *session)
{
	return drain(session, "undrain", /* cancel= */ true);
}
