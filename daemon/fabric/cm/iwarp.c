/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/cm/id.h"
#include "fabric/cm/iwarp.h"
#include "fabric/cm/restored.h"
#include "fabric/device/device.h"
#include "fabric/device/opener.h"
#include "proto/timer.h"
#include "util/util.h"

/* At most so many of fabric.callers work for a user, so that some are left for other users: each has so many lanes. */
#define CALLERS_PER_USER 8

struct iwarp_call {
	struct offload_job job; /* for fabric.callers */
	struct fabric_id *id;
	int (*make)(struct iwarp_call *call); /* the call: in the thread */
	struct rdma_conn_param param;
	uint8_t private_data[256];
	struct list link; /* fabric.listens, while a listen waits for its turn */
	int backlog;
	bool restores, has_result;
	atomic_bool cancelled;
	int r;
};

bool iwarp_has(const struct fabric_id *id)
{
	const struct fabric_device *device;

	if (id->cm)
		return id->cm->verbs &&
		       id->cm->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	/* A restored id has only the name of its device. */
	device = fabric_find_device(id->fabric, id->device);
	return device && fabric_device_is_iwarp(device);
}

static void run(struct offload_job *job)
{
	struct iwarp_call *call = container_of(job, struct iwarp_call, job);

	call->r = atomic_load(&call->cancelled) ? -ECANCELED : call->make(call);
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

/* ID has no call any more. */
static void forget(struct fabric_id *id)
{
	free(id->call);
	id->call = NULL;
}

static void done(struct offload_job *job)
{
	struct iwarp_call *call = container_of(job, struct iwarp_call, job);
	struct fabric_event event = { .type = type_of(call->r), .status = call->r };
	struct fabric_id *id = call->id;

	/* As the kernel reports an accept that fails later. */
	if (id->stage == STAGE_ACCEPTED)
		event.type = RDMA_CM_EVENT_CONNECT_ERROR;
	forget(id);
	if (fabric_id_is_dying(id))
		offload_submit(id->fabric->undertaker, &id->job);
	else if (event.status < 0)
		id->fabric->on_id_event(id, &event);
}

void iwarp_cancel(struct iwarp_call *call)
{
	struct fabric_id *id = call->id;

	atomic_store(&call->cancelled, true);
	/* No thread has it: it waits for its turn, or nobody has asked for the outcome. */
	if (!list_is_empty(&call->link) || call->has_result) {
		list_remove(&call->link);
		offload_release(&call->job);
		forget(id);
		offload_submit(id->fabric->undertaker, &id->job);
	}
}

bool iwarp_is_calling(const struct fabric_id *id)
{
	return id->call && (id->stage == STAGE_ASKED || id->stage == STAGE_ACCEPTED);
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

static int call_new(struct iwarp_call **ret, struct fabric_id *id,
		    int (*make)(struct iwarp_call *call))
{
	struct offload *callers = id->fabric->callers;
	struct iwarp_call *call = calloc(1, sizeof(*call));
	int r;

	if (!call)
		return -ENOMEM;
	r = offload_prepare_in_group(callers, &call->job, choose_lane(callers, id->owner),
				     owner_group(id->owner));
	if (r < 0) {
		free(call);
		return r;
	}
	list_init(&call->link);
	call->job.run = run;
	call->job.done = done;
	call->id = id;
	call->make = make;
	*ret = id->call = call;
	return 0;
}

static int begin(struct fabric_id *id, const struct rdma_conn_param *param,
		 int (*make)(struct iwarp_call *call), enum fabric_stage stage)
{
	struct fabric *fabric = id->fabric;
	struct iwarp_call *call;
	int r;

	if (id->call || id->stage != STAGE_NONE)
		return -EINVAL;
	r = call_new(&call, id, make);
	if (r < 0)
		return r;
	call->param = *param;
	if (param->private_data) {
		memcpy(call->private_data, param->private_data, param->private_data_len);
		call->param.private_data = call->private_data;
	}
	id->stage = stage;
	offload_submit(fabric->callers, &call->job);
	return 0;
}

static int make_connect(struct iwarp_call *call)
{
	return cm_result(rdma_connect(call->id->cm, &call->param));
}

int iwarp_connect(struct fabric_id *id, const struct rdma_conn_param *param)
{
	return begin(id, param, make_connect, STAGE_ASKED);
}

static int make_accept(struct iwarp_call *call)
{
	return call->id->restored ? restored_accept(call->id, &call->param) :
				    cm_result(rdma_accept(call->id->cm, &call->param));
}

int iwarp_accept(struct fabric_id *id, const struct rdma_conn_param *param)
{
	return begin(id, param, make_accept, STAGE_ACCEPTED);
}

bool iwarp_may_wait_to_listen(const struct fabric_id *id)
{
	return id->cm->verbs ? iwarp_has(id) : opener_has_iwarp(id->fabric->opener);
}

static int make_listen(struct iwarp_call *call)
{
	return cm_result(rdma_listen(call->id->cm, call->backlog));
}

static void start_next(struct fabric *fabric)
{
	if (!fabric->listening && !list_is_empty(&fabric->listens))
		timer_start(fabric->next_listen, 0);
}

static void on_listened(struct offload_job *job)
{
	struct iwarp_call *call = container_of(job, struct iwarp_call, job);
	struct fabric_event event = { .type = RDMA_CM_EVENT_DEVICE_REMOVAL, .status = call->r };
	struct fabric_id *id = call->id;
	struct fabric *fabric = id->fabric;
	bool restores = call->restores;
	/* All have waited for an id without a device, and else only who waits for this port. */
	in_port_t port = fabric->listening == call ? 0 : rdma_get_src_port(id->cm);

	if (fabric->listening == call)
		fabric->listening = NULL;
	call->has_result = true;
	if (fabric_id_is_dying(id)) {
		forget(id);
		offload_submit(fabric->undertaker, &id->job);
	} else if (restores) {
		forget(id);
		if (event.status < 0)
			fabric->on_id_event(id, &event);
	}
	start_next(fabric);
	if (fabric->ops)
		fabric->ops->can_go_on(fabric->userdata, port);
}

/* In a turn of its own: while ids are restored, none of their binds has to wait. */
static int on_next_listen(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct fabric *fabric = userdata;
	struct list *l = list_first(&fabric->listens);

	if (!l)
		return 0;
	list_remove(l);
	fabric->listening = container_of(l, struct iwarp_call, link);
	offload_submit(fabric->callers, &fabric->listening->job);
	return 0;
}

int iwarp_listen(struct fabric_id *id, int backlog, bool restores)
{
	struct fabric *fabric = id->fabric;
	struct iwarp_call *call = id->call;
	int r;

	if (call) {
		r = call->has_result ? call->r : -EINPROGRESS;
		if (call->has_result)
			forget(id);
		return r;
	}
	r = call_new(&call, id, make_listen);
	if (r < 0)
		return r;
	call->job.done = on_listened;
	call->backlog = backlog;
	call->restores = restores;
	if (id->cm->verbs) {
		offload_submit(fabric->callers, &call->job);
	} else {
		list_insert(&fabric->listens, &call->link);
		start_next(fabric);
	}
	return restores ? 0 : -EINPROGRESS;
}

int iwarp_init(struct fabric *fabric)
{
	list_init(&fabric->listens);
	return timer_new(&fabric->next_listen, fabric->loop, 1, on_next_listen, fabric);
}

void iwarp_end(struct fabric *fabric)
{
	fabric->next_listen = sd_event_source_disable_unref(fabric->next_listen);
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
