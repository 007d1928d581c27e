/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/cm/id.h"
#include "fabric/cm/iwarp.h"
#include "util/util.h"

/* At most so many of fabric.callers work for a user, so that some are left for other users: each has so many lanes. */
#define CALLERS_PER_USER 8

struct iwarp_call {
	struct offload_job job; /* for fabric.callers */
	struct fabric_id *id;
	struct rdma_conn_param param;
	uint8_t private_data[256];
	atomic_bool cancelled;
	int r;
};

/* A restored id has only the name of its device. */
static bool is_rnic(const char *name)
{
	_cleanup_(sd_device_unrefp) sd_device *device = NULL;
	const char *type;

	/* "4: RNIC" */
	return name[0] && sd_device_new_from_subsystem_sysname(&device, "infiniband", name) >= 0 &&
	       sd_device_get_sysattr_value(device, "node_type", &type) >= 0 && type[0] == '4';
}

bool iwarp_has(const struct fabric_id *id)
{
	if (id->restored)
		return is_rnic(id->device);
	return id->cm->verbs && id->cm->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

static void run(struct offload_job *job)
{
	struct iwarp_call *call = container_of(job, struct iwarp_call, job);

	call->r = atomic_load(&call->cancelled)                ? -ECANCELED :
		  rdma_connect(call->id->cm, &call->param) < 0 ? -errno :
								 0;
}

/* As the kernel reports a connect that fails later. */
static enum rdma_cm_event_type type_of(int r)
{
	switch (r) {
	case -ECONNREFUSED:
	case -ECONNRESET:
		return RDMA_CM_EVENT_REJECTED;
	case -ETIMEDOUT:
		return RDMA_CM_EVENT_UNREACHABLE;
	default:
		return RDMA_CM_EVENT_CONNECT_ERROR;
	}
}

static void done(struct offload_job *job)
{
	struct iwarp_call *call = container_of(job, struct iwarp_call, job);
	struct fabric_event event = { .type = type_of(call->r), .status = call->r };
	struct fabric_id *id = call->id;
	bool failed = call->r < 0;

	id->call = NULL;
	free(call);
	if (fabric_id_is_dying(id))
		offload_submit(id->fabric->undertaker, &id->job);
	else if (failed)
		id->fabric->on_id_event(id, &event);
}

void iwarp_cancel(struct iwarp_call *call)
{
	atomic_store(&call->cancelled, true);
}

bool iwarp_is_calling(const struct fabric_id *id)
{
	return id->call && id->stage == STAGE_ASKED;
}

/* The lane of OWNER with the fewest connects. */
static uint64_t choose_lane(const struct offload *callers, struct owner owner)
{
	uint64_t first = (uint64_t)owner.uid * CALLERS_PER_USER, ret = first;

	for (uint64_t key = first; key < first + CALLERS_PER_USER; key++)
		if (offload_n_jobs_of(callers, key) < offload_n_jobs_of(callers, ret))
			ret = key;
	return ret;
}

int iwarp_connect(struct fabric_id *id, const struct rdma_conn_param *param)
{
	struct fabric *fabric = id->fabric;
	struct iwarp_call *call;
	int r;

	if (id->call || id->stage != STAGE_NONE)
		return -EINVAL;
	call = calloc(1, sizeof(*call));
	if (!call)
		return -ENOMEM;
	r = offload_prepare_in_group(fabric->callers, &call->job,
				     choose_lane(fabric->callers, id->owner),
				     owner_group(id->owner));
	if (r < 0) {
		free(call);
		return r;
	}
	call->job.run = run;
	call->job.done = done;
	call->id = id;
	call->param = *param;
	if (param->private_data) {
		memcpy(call->private_data, param->private_data, param->private_data_len);
		call->param.private_data = call->private_data;
	}
	id->call = call;
	id->stage = STAGE_ASKED;
	offload_submit(fabric->callers, &call->job);
	return 0;
}

bool iwarp_puts_off_disconnect(struct fabric_id *id)
{
	bool waits = id->stage == STAGE_ASKED || id->stage == STAGE_ACCEPTED ||
		     (id->call && id->stage == STAGE_NONE);

	if (!waits || !iwarp_has(id))
		return false;
	id->disconnect_is_put_off = true;
	return true;
}

bool iwarp_wants_disconnect(struct fabric_id *id, enum rdma_cm_event_type type)
{
	bool waits = id->disconnect_is_put_off;

	id->disconnect_is_put_off = false;
	return waits && type == RDMA_CM_EVENT_ESTABLISHED;
}
