/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/admin.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"
#include "proto/address.h"

/* PUBLIC points into FRAME, the reply, which is freed together with it. */
struct status {
	struct rdmabroker_status public;
	Rdmabroker__Frame *frame;
	struct rdmabroker_device_status **devices;
	struct rdmabroker_foreign_ids **foreign_ids;
	struct rdmabroker_holder **holders; /* of all devices, in the order of the devices */
};

static struct status *status_free(struct status *status)
{
	if (!status)
		return NULL;
	free(status->holders);
	free(status->foreign_ids);
	free(status->devices);
	free(status);
	return NULL;
}

static struct status *status_alloc(const Rdmabroker__Status *in)
{
	struct status *status = calloc(1, sizeof(*status));
	size_t n_holders = 0, n_examined = 0;

	if (!status)
		return NULL;
	for (size_t i = 0; i < in->n_devices; i++) {
		if (!in->devices[i]->foreign_ids)
			continue;
		n_examined++;
		n_holders += in->devices[i]->foreign_ids->n_holders;
	}
	status->devices = sized_new_array(in->n_devices, sizeof(**status->devices));
	status->foreign_ids = sized_new_array(n_examined, sizeof(**status->foreign_ids));
	status->holders = sized_new_array(n_holders, sizeof(**status->holders));
	return status->devices && status->foreign_ids && status->holders ? status :
									   status_free(status);
}

static void in_holder(struct rdmabroker_holder *ret, const Rdmabroker__Status__Holder *in)
{
	*ret = (struct rdmabroker_holder){
		.size = sizeof(*ret),
		.pid = (int)in->pid,
		.uid = in->uid,
		.name = message_get_text(in->name),
		.n_ids = in->ids,
		.state = in->state,
	};
	address_unpack(&ret->local, in->local);
	address_unpack(&ret->peer, in->peer);
}

/* Fills RET from DEVICE. Stores the holders at SPACE, and returns the place for the next device's holders. */
static struct rdmabroker_holder **in_foreign_ids(struct rdmabroker_foreign_ids *ret,
						 const Rdmabroker__Status__Device *device,
						 struct rdmabroker_holder **space)
{
	const Rdmabroker__Status__ForeignIds *in = device->foreign_ids;

	*ret = (struct rdmabroker_foreign_ids){
		.size = sizeof(*ret),
		.device = device->name,
		.age_ms = in->age_ms,
		.n_holders = in->n_holders,
		.holders = (const struct rdmabroker_holder *const *)space,
		.n_more = in->more_ids,
		.n_nameless = in->nameless_ids,
	};
	for (size_t i = 0; i < in->n_holders; i++)
		in_holder(*space++, in->holders[i]);
	return space;
}

static struct status *status_new(Rdmabroker__Frame *frame)
{
	const Rdmabroker__Status *in = frame->reply->status;
	struct status *status = status_alloc(in);
	struct rdmabroker_holder **space;

	if (!status)
		return NULL;
	status->frame = frame;
	status->public = (struct rdmabroker_status){
		.size = sizeof(status->public),
		.version = in->version,
		.policy_error = message_get_text(in->policy_error),
		.n_rules = in->rules,
		.n_sessions = in->sessions,
		.n_listeners = in->listeners,
		.n_connections = in->connections,
		.n_ids = in->ids,
		.n_fds = in->fds,
		.n_leases = in->leases,
		.n_devices = in->n_devices,
		.devices = (const struct rdmabroker_device_status *const *)status->devices,
		.draining = in->draining,
		.n_handshakes = in->handshakes,
		.foreign_ids = (const struct rdmabroker_foreign_ids *const *)status->foreign_ids,
		.n_warnings = in->n_warnings,
		.warnings = (const char *const *)in->warnings,
		.no_policy = in->no_policy,
		.n_missing_names = in->missing_names,
		.n_warn_rules = in->warn_rules,
		.n_warned = in->warned,
		.generation = in->take_over ? in->take_over->generation : 0,
		.n_taken_sessions = in->take_over ? in->take_over->sessions : 0,
		.n_ended_sessions = in->take_over ? in->take_over->ended_sessions : 0,
		.take_over_ms = in->take_over ? in->take_over->took_ms : 0,
		.take_over_age_ms = in->take_over ? in->take_over->age_ms : 0,
	};
	space = status->holders;
	for (size_t i = 0; i < in->n_devices; i++) {
		const Rdmabroker__Status__Device *device = in->devices[i];

		*status->devices[i] = (struct rdmabroker_device_status){
			.size = sizeof(*status->devices[i]),
			.name = device->name,
			.node = device->node,
			.n_leases = device->leases,
		};
		if (device->foreign_ids)
			space = in_foreign_ids(status->foreign_ids[status->public.n_foreign_ids++],
					       device, space);
	}
	return status;
}

int rdmabroker_get_status(struct rdmabroker *session, struct rdmabroker_status **ret)
{
	REQUEST(request, m, GetStatus, GET_STATUS, get_status);
	Rdmabroker__Frame *frame;
	struct status *status;
	int r = call_wait_for(&session->wire, "get_status", &request,
			      RDMABROKER__REPLY__RESULT_STATUS, &frame);

	if (r < 0)
		return r;
	status = status_new(frame);
	if (!status) {
		frame_free(frame);
		return fail(ENOMEM, "get_status: out of memory");
	}
	*ret = &status->public;
	return 0;
}

struct rdmabroker_status *rdmabroker_free_status(struct rdmabroker_status *public)
{
	struct status *status = (struct status *)public;

	if (status) {
		frame_free(status->frame);
		status_free(status);
	}
	return NULL;
}
