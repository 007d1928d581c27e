/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/admin.h"
#include "client/lib/admin/replies.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "proto/address.h"

static void in_holder(struct rdmabroker_holder *ret, const Rdmabroker__Status__Holder *in)
{
	*ret = (struct rdmabroker_holder){
		.pid = (int)in->pid,
		.uid = in->uid,
		.name = message_get_text(in->name),
		.n_ids = in->ids,
		.state = in->state,
	};
	address_unpack(&ret->local, in->local);
	address_unpack(&ret->peer, in->peer);
}

/* Stores the holders at SPACE, and returns the place for the next device's holders. */
static struct rdmabroker_holder *in_device(struct rdmabroker_device_status *ret,
					   const Rdmabroker__Status__Device *in,
					   struct rdmabroker_holder *space)
{
	const Rdmabroker__Status__ForeignIds *foreign = in->foreign_ids;

	*ret = (struct rdmabroker_device_status){
		.name = in->name,
		.node = in->node,
		.n_leases = in->leases,
		.is_examined = foreign,
	};
	if (!foreign)
		return space;
	ret->foreign = (struct rdmabroker_foreign_ids){
		.age_ms = foreign->age_ms,
		.n_holders = foreign->n_holders,
		.holders = space,
		.n_more = foreign->more_ids,
		.n_nameless = foreign->nameless_ids,
	};
	for (size_t i = 0; i < foreign->n_holders; i++)
		in_holder(space++, foreign->holders[i]);
	return space;
}

/* The pages are alike but for the devices. */
static int next(const Rdmabroker__Reply *reply, Rdmabroker__Request *request)
{
	const Rdmabroker__Status *in = reply->status;
	bool goes_on = in->n_devices > 0 && in->last_device > request->get_status->after_device;

	request->get_status->after_device = in->last_device;
	return in->last_device == 0 ? 0 : goes_on ? 1 : -EPROTO;
}

int rdmabroker_get_status(struct rdmabroker *session, struct rdmabroker_status **ret)
{
	REQUEST(request, m, GetStatus, GET_STATUS, get_status);
	struct rdmabroker_device_status *devices;
	struct rdmabroker_holder *holders;
	struct rdmabroker_status *status;
	size_t n_devices = 0, n_holders = 0;
	const Rdmabroker__Status *in;
	struct replies replies;
	int r = replies_get(&replies, session, "get_status", &request,
			    RDMABROKER__REPLY__RESULT_STATUS, next);

	if (r < 0)
		return r;
	for (size_t i = 0; i < replies.n; i++) {
		in = replies.list[i]->reply->status;
		n_devices += in->n_devices;
		for (size_t k = 0; k < in->n_devices; k++)
			n_holders += in->devices[k]->foreign_ids ?
					     in->devices[k]->foreign_ids->n_holders :
					     0;
	}
	status = replies_keep(&replies, sizeof(*status) + n_devices * sizeof(*devices) +
						n_holders * sizeof(*holders));
	if (!status)
		return -ENOMEM;
	in = replies.list[0]->reply->status;
	devices = (void *)(status + 1);
	holders = (void *)(devices + n_devices);
	*status = (struct rdmabroker_status){
		.version = in->version,
		.policy_error = message_get_text(in->policy_error),
		.no_policy = in->no_policy,
		.draining = in->draining,
		.n_rules = in->rules,
		.n_warn_rules = in->warn_rules,
		.n_missing_names = in->missing_names,
		.n_sessions = in->sessions,
		.n_listeners = in->listeners,
		.n_connections = in->connections,
		.n_handshakes = in->handshakes,
		.n_ids = in->ids,
		.n_fds = in->fds,
		.n_leases = in->leases,
		.n_warned = in->warned,
		.n_devices = n_devices,
		.devices = devices,
		.n_warnings = in->n_warnings,
		.warnings = (const char *const *)in->warnings,
		.learned = learned_get(in->learned),
	};
	if (in->take_over) {
		status->generation = in->take_over->generation;
		status->n_taken_sessions = in->take_over->sessions;
		status->n_ended_sessions = in->take_over->ended_sessions;
		status->take_over_ms = in->take_over->took_ms;
		status->take_over_age_ms = in->take_over->age_ms;
	}
	for (size_t i = 0; i < replies.n; i++) {
		in = replies.list[i]->reply->status;
		for (size_t k = 0; k < in->n_devices; k++)
			holders = in_device(devices++, in->devices[k], holders);
	}
	*ret = status;
	return 0;
}

int rdmabroker_get_limits(struct rdmabroker *session, struct rdmabroker_limits **ret)
{
	REQUEST(request, m, GetLimits, GET_LIMITS, get_limits);
	const Rdmabroker__GetLimitsResult *in;
	struct rdmabroker_limits *limits;
	struct replies replies;
	int r = replies_get(&replies, session, "get_limits", &request,
			    RDMABROKER__REPLY__RESULT_GET_LIMITS, NULL);

	if (r < 0)
		return r;
	in = replies.list[0]->reply->get_limits;
	limits = replies_keep(&replies, sizeof(*limits) + in->n_limits * sizeof(*limits->list));
	if (!limits)
		return -ENOMEM;
	limits->list = (void *)(limits + 1);
	for (size_t i = 0; i < in->n_limits; i++)
		limits->list[limits->n++] = (struct rdmabroker_limit){
			.what = in->limits[i]->what,
			.key = in->limits[i]->key,
			.used = in->limits[i]->used,
			.limit = in->limits[i]->limit,
		};
	*ret = limits;
	return 0;
}

/* The metrics come in pages, which are put together here. */
static int next_page(const Rdmabroker__Reply *reply, Rdmabroker__Request *request)
{
	const Rdmabroker__GetMetricsResult *in = reply->get_metrics;
	Rdmabroker__GetMetrics *m = request->get_metrics;
	bool goes_on = in->text[0] &&
		       replies_is_further(in->next_section, in->next_index, m->section, m->index);

	m->section = in->next_section;
	m->index = in->next_index;
	return !in->more ? 0 : goes_on ? 1 : -EPROTO;
}

int rdmabroker_get_metrics(struct rdmabroker *session, char **ret)
{
	REQUEST(request, m, GetMetrics, GET_METRICS, get_metrics);
	struct replies replies;
	char *text, *end;
	size_t len = 0;
	int r = replies_get(&replies, session, "get_metrics", &request,
			    RDMABROKER__REPLY__RESULT_GET_METRICS, next_page);

	if (r < 0)
		return r;
	for (size_t i = 0; i < replies.n; i++)
		len += strlen(replies.list[i]->reply->get_metrics->text);
	text = end = malloc(len + 1);
	if (text)
		for (size_t i = 0; i < replies.n; i++)
			end = stpcpy(end, replies.list[i]->reply->get_metrics->text);
	replies_free(&replies);
	if (!text)
		return fail(ENOMEM, "get_metrics: out of memory");
	*ret = text;
	return 0;
}
