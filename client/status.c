/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/internal.h"

/* The public status points into the message, which is kept for as long as it lives. */
struct status {
	struct rdmabroker_status public;
	Rdmabroker__Frame *frame;
	struct rdmabroker_device_status devices[];
};

static struct status *status_new(Rdmabroker__Frame *frame)
{
	const Rdmabroker__Status *in = frame->reply->status;
	struct status *status =
		calloc(1, sizeof(*status) + in->n_devices * sizeof(*status->devices));

	if (!status)
		return NULL;
	status->frame = frame;
	status->public = (struct rdmabroker_status){
		.version = in->version,
		.policy_error = in->policy_error[0] ? in->policy_error : NULL,
		.n_rules = in->rules,
		.n_sessions = in->sessions,
		.n_listeners = in->listeners,
		.n_connections = in->connections,
		.n_ids = in->ids,
		.n_fds = in->fds,
		.n_leases = in->leases,
		.n_devices = (unsigned)in->n_devices,
		.devices = status->devices,
		.draining = in->draining,
		.n_handshakes = in->handshakes,
	};
	for (size_t i = 0; i < in->n_devices; i++)
		status->devices[i] = (struct rdmabroker_device_status){
			.name = in->devices[i]->name,
			.node = in->devices[i]->node,
			.n_leases = in->devices[i]->leases,
		};
	return status;
}

int rdmabroker_get_status(struct rdmabroker *session, struct rdmabroker_status **ret)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__GetStatus m = RDMABROKER__GET_STATUS__INIT;
	Rdmabroker__Frame *frame;
	struct status *status = NULL;
	int r;

	request.op_case = RDMABROKER__REQUEST__OP_GET_STATUS;
	request.get_status = &m;
	r = wire_call(session, "get_status", 0, &request, session->call_timeout_ms, &frame);
	if (r < 0)
		return r;
	if (frame->reply->result_case == RDMABROKER__REPLY__RESULT_STATUS)
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
	/* The public part is the first. */
	struct status *status = (struct status *)public;

	if (status) {
		frame_free(status->frame);
		free(status);
	}
	return NULL;
}
