/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/admin.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pages.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"
#include "proto/address.h"

/* What was refused. PUBLIC points into PAGES, the replies, which are freed together with it. */
struct refusals {
	struct rdmabroker_refusals public;
	struct page_list pages;
	size_t n;
	struct rdmabroker_refusal **refusals;
};

static void refusals_free(struct refusals *refusals)
{
	page_list_free(&refusals->pages);
	free(refusals->refusals);
	free(refusals);
}

static void in_refusal(struct rdmabroker_refusal *ret, const Rdmabroker__GetRefusalsResult__Row *in)
{
	*ret = (struct rdmabroker_refusal){
		.size = sizeof(*ret),
		.operation = in->operation,
		.outcome = in->outcome,
		.uid = in->uid,
		.any_port = in->any_port,
		.port = (uint16_t)in->port,
		.ps = (enum rdmabroker_port_space)in->port_space,
		.peer_prefix = in->peer_prefix,
		.unit = message_get_text(in->unit),
		.name = message_get_text(in->name),
		.device = message_get_text(in->device),
		.rule = message_get_text(in->rule),
		.count = in->count,
		.first_ms = in->first_ms,
		.last_ms = in->last_ms,
		.gids = in->gids,
		.n_gids = in->n_gids,
	};
	if (in->workload) {
		ret->container = message_get_text(in->workload->container);
		ret->pod = message_get_text(in->workload->pod);
		ret->job = message_get_text(in->workload->job);
	}
	if (in->local)
		address_unpack(&ret->local, in->local);
	if (in->peer)
		address_unpack(&ret->peer, in->peer);
}

static int fill(struct refusals *refusals)
{
	struct rdmabroker_refusal **to;

	refusals->refusals = sized_new_array(refusals->n, sizeof(**refusals->refusals));
	if (!refusals->refusals)
		return fail(ENOMEM, "get_refusals: out of memory");
	to = refusals->refusals;
	for (size_t i = 0; i < refusals->pages.n; i++) {
		const Rdmabroker__GetRefusalsResult *in =
			refusals->pages.pages[i]->reply->get_refusals;

		for (size_t k = 0; k < in->n_rows; k++)
			in_refusal(*to++, in->rows[k]);
	}
	refusals->public = (struct rdmabroker_refusals){
		.size = sizeof(refusals->public),
		.n_refusals = refusals->n,
		.refusals = (const struct rdmabroker_refusal *const *)refusals->refusals,
	};
	return 0;
}

static int get_pages(struct rdmabroker *session, struct refusals *refusals)
{
	REQUEST(request, m, GetRefusals, GET_REFUSALS, get_refusals);
	struct pages pages;
	bool more, goes_on;
	int r;

	pages_init(&pages, &session->wire, "get_refusals");
	do {
		const Rdmabroker__GetRefusalsResult *in;
		Rdmabroker__Frame *page;

		r = pages_get(&pages, &request, RDMABROKER__REPLY__RESULT_GET_REFUSALS, &page);
		if (r < 0)
			break;
		in = page->reply->get_refusals;
		more = in->more;
		goes_on = in->n_rows > 0 && in->next > m.first;
		m.first = in->next;
		refusals->n += in->n_rows;
		r = page_list_add(&refusals->pages, page, pages.name);
		if (r == 0 && more && !goes_on)
			r = pages_fail(&pages);
	} while (r == 0 && more);
	return r;
}

int rdmabroker_get_refusals(struct rdmabroker *session, struct rdmabroker_refusals **ret)
{
	struct refusals *refusals = calloc(1, sizeof(*refusals));
	int r;

	if (!refusals)
		return fail(ENOMEM, "get_refusals: out of memory");
	r = get_pages(session, refusals);
	if (r == 0)
		r = fill(refusals);
	if (r < 0) {
		refusals_free(refusals);
		return r;
	}
	*ret = &refusals->public;
	return 0;
}

struct rdmabroker_refusals *rdmabroker_free_refusals(struct rdmabroker_refusals *public)
{
	if (public)
		refusals_free((struct refusals *)public);
	return NULL;
}
