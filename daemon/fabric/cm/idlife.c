/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/cm/id.h"
#include "fabric/cm/iwarp.h"
#include "fabric/cm/restored.h"
#include "fabric/device/device.h"
#include "proto/text.h"
#include "util/util.h"

/* How ids begin and end. A thread destroys them, because rdma_destroy_id() can wait for the kernel. */

/*
 * rdma_destroy_id() can block. The kernel waits for its event handlers and, since 2024, for the connection
 * manager. librdmacm waits for events to be acked. So threads destroy ids, for each user one id at a time.
 * Unwanted connection requests (no session took them over) come from the network. They have a lane of their
 * own, so that a stuck request does not hold up the user's other ids.
 */

/* set in the lane's key, beside the uid, for unwanted connection requests */
#define LANE_OF_UNWANTED (1ULL << 32)

#define ENDING_PER_USER 65536

void fabric_init_ids(struct fabric *fabric)
{
	for (size_t i = 0; i < DYING_LISTS; i++)
		list_init(&fabric->dying[i]);
	account_init(&fabric->ending);
	fabric->ending.limit_per_user[ACCOUNT_IDS] = ENDING_PER_USER;
}

static void destroy(struct offload_job *job)
{
	struct fabric_id *id = container_of(job, struct fabric_id, job);

	if (id->restored) {
		restored_destroy(id);
		return;
	}
	if (id->disconnects)
		rdma_disconnect(id->cm);
	rdma_destroy_id(id->cm);
}

/* Unwanted requests can arrive faster than they are destroyed, so their number is limited. */
static void count_dying(const struct fabric_id *id, int change)
{
	struct fabric *fabric = id->fabric;

	if (!id->is_unwanted)
		return;
	fabric->n_dying_unwanted += (unsigned)change;
	fabric_update_io(fabric);
}

static struct list *dying_with(struct fabric *fabric, in_port_t port)
{
	return &fabric->dying[ntohs(port) % DYING_LISTS];
}

static void on_destroyed(struct offload_job *job)
{
	struct fabric_id *id = container_of(job, struct fabric_id, job);
	struct fabric *fabric = id->fabric;

	in_port_t port = id->port;

	list_remove(&id->dying);
	count_dying(id, -1);
	charge_done(&id->ending);
	restored_free(id);
	free(id);
	if (fabric->ops && port > 0)
		fabric->ops->can_go_on(fabric->userdata, port);
}

int fabric_id_alloc(struct fabric_id **ret, struct fabric *fabric, struct owner owner,
		    bool is_request)
{
	struct fabric_id *id = calloc(1, sizeof(*id));
	int r;

	if (!id)
		return -ENOMEM;
	id->fabric = fabric;
	id->owner = owner;
	id->job.run = destroy;
	id->job.done = on_destroyed;
	for (int i = 0; i < FABRIC_OPTIONS; i++)
		id->set[i] = -1;
	list_init(&id->dying);
	list_init(&id->leaving);
	id->is_unwanted = is_request;
	id->is_request = is_request;
	r = offload_prepare_in_group(fabric->undertaker, &id->job,
				     owner.uid | (is_request ? LANE_OF_UNWANTED : 0),
				     owner_group(owner));
	if (r < 0) {
		free(id);
		return r;
	}
	*ret = id;
	return 0;
}

int fabric_id_new(struct fabric_id **ret, struct fabric *fabric, struct owner owner,
		  enum rdma_port_space ps, fabric_event_fn on_event, void *userdata)
{
	struct fabric_id *id;
	int r;

	r = fabric_open_channel(fabric);
	if (r < 0)
		return r;
	if (account_get_used(&fabric->ending, ACCOUNT_IDS, owner) >= ENDING_PER_USER)
		return -EDQUOT;
	r = fabric_id_alloc(&id, fabric, owner, /* is_request= */ false);
	if (r < 0)
		return r;
	id->on_event = on_event;
	id->userdata = userdata;
	r = cm_result(rdma_create_id(fabric->cm, &id->cm, id, ps));
	if (r < 0) {
		offload_release(&id->job);
		free(id);
		return r;
	}
	*ret = id;
	return 0;
}

int fabric_id_adopt(struct fabric_id **ret, struct fabric *fabric, struct owner owner,
		    struct rdma_cm_id *cm)
{
	struct fabric_id *id;
	int r = fabric_id_alloc(&id, fabric, owner, /* is_request= */ true);

	if (r < 0)
		return r;
	id->cm = cm;
	cm->context = id; /* librdmacm has set this to the listener's context */
	*ret = id;
	return 0;
}

struct fabric_id *fabric_id_free(struct fabric_id *id)
{
	if (!id)
		return NULL;
	id->on_event = NULL;
	/*
	 * rdma_disconnect() only has an effect on an established connection. In an earlier stage, destroying
	 * the id ends the connection.
	 */
	id->disconnects = id->stage != STAGE_NONE;
	if (id->cm) {
		id->ps = id->cm->ps;
		id->port = id->is_request ? 0 : rdma_get_src_port(id->cm);
	} else {
		id->port = id->is_request ? 0 : restored_get_port(id);
	}
	/* If memory runs out, the id is not charged to its user. */
	account_add(&id->fabric->ending, &id->ending, ACCOUNT_IDS, 1, id->owner);
	list_insert(dying_with(id->fabric, id->port), &id->dying);
	count_dying(id, 1);
	if (id->call)
		iwarp_cancel(id->call);
	else
		offload_submit(id->fabric->undertaker, &id->job);
	return NULL;
}

void fabric_id_set_owner(struct fabric_id *id, struct owner owner, fabric_event_fn on_event,
			 void *userdata)
{
	bool moves = !owner_is(owner, id->owner) || id->is_unwanted;
	struct offload_job job;

	id->on_event = on_event;
	id->userdata = userdata;
	id->is_unwanted = false;
	/* If memory runs out, the id keeps its lane and its owner. */
	if (!moves || offload_prepare_in_group(id->fabric->undertaker, &job, owner.uid,
					       owner_group(owner)) < 0)
		return;
	offload_release(&id->job);
	id->job.lane = job.lane;
	id->owner = owner;
}

static bool is_being_freed(struct fabric *fabric, enum rdma_port_space ps, in_port_t port)
{
	struct list *lists = dying_with(fabric, port), *l;

	list_for_each(l, lists) {
		const struct fabric_id *id = container_of(l, struct fabric_id, dying);

		if (id->port == port && id->ps == ps)
			return true;
	}
	return false;
}

/* R: the result of a bind to PORT, or of a listen there. */
bool fabric_id_has_to_wait(const struct fabric_id *id, int r, in_port_t port)
{
	return (r == -EADDRINUSE || r == -EADDRNOTAVAIL) && port > 0 &&
	       is_being_freed(id->fabric, id->cm->ps, port);
}

/* librdmacm keeps the first name of a device, and udev may have renamed the device since. */
static const char *current_name(struct fabric *fabric, struct ibv_device *ibv)
{
	struct fabric_device *device = NULL;

	while ((device = fabric_next_device(fabric, device)))
		if (strcmp(fabric_device_sysname(device), ibv->dev_name) == 0)
			return device->name;
	return ibv_get_device_name(ibv);
}

void fabric_id_note_device(struct fabric_id *id)
{
	struct fabric *fabric = id->fabric;

	if (!id->cm || !id->cm->verbs || id->device[0])
		return;
	text_copy(id->device, sizeof(id->device), current_name(fabric, id->cm->verbs->device));
}
