/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/cm/cmscan.h"
#include "fabric/cm/id.h"
#include "fabric/cm/iwarp.h"
#include "fabric/cm/leftover.h"
#include "fabric/cm/restored.h"
#include "fabric/device/device.h"
#include "proto/addr.h"
#include "proto/text.h"
#include "util/log.h"
#include "util/util.h"

/*
 * Take-over: the leftover ids are found, and restored for their sessions; what nobody claims is ended.
 * restored.c has what can be done with such an id afterwards.
 */

#define SETTLE_MS 1000 /* for which the take-over waits until ids are destroyed */

void fabric_note_reading(struct fabric *fabric, uint32_t *reading)
{
	fabric->reading = reading ?: &fabric->no_reading;
}

int fabric_takeover(struct fabric *fabric, const int *files, size_t n_files, size_t n_expected)
{
	int r;

	if (n_files == 0)
		return 0;
	r = leftovers_new(&fabric->leftovers, fabric->reading);
	if (r < 0)
		return r;
	if (fabric->ops->restores)
		fabric->ops->restores(fabric->userdata, leftovers_get_file(fabric->leftovers));
	return leftovers_take(fabric->leftovers, files, n_files, n_expected);
}

/*
 * The join that the event is about. The events of a previous process's join do not tell which group they are about. It
 * is known only if there is no other join.
 */
static struct fabric_join *find_join(const struct fabric_id *id, const struct ucm_event *event)
{
	struct list *l, *joins = &id->restored->joins;
	struct fabric_join *old = NULL;
	unsigned n = 0;

	list_for_each(l, joins) {
		struct fabric_join *join = container_of(l, struct fabric_join, link);

		if (event->userdata == (uintptr_t)join)
			return join;
		n++;
		old = join->is_old ? join : old;
	}
	return n == 1 ? old : NULL;
}

static bool is_multicast(const struct ucm_event *event)
{
	return event->type == RDMA_CM_EVENT_MULTICAST_JOIN ||
	       event->type == RDMA_CM_EVENT_MULTICAST_ERROR;
}

static void copy(struct fabric_event *ret, const struct ucm_event *event, bool datagram)
{
	struct ucm_conn conn;

	ucm_event_get(event, datagram, &conn);
	*ret = (struct fabric_event){
		.type = (enum rdma_cm_event_type)event->type,
		.status = event->status,
		.conn.qp_num = conn.qpn,
	};
	if (datagram) {
		ret->ud.qp_num = conn.qpn;
		ret->ud.qkey = conn.qkey;
		ret->ud.ah_attr = conn.ah;
	} else {
		ret->conn.responder_resources = conn.responder_resources;
		ret->conn.initiator_depth = conn.initiator_depth;
		ret->conn.flow_control = conn.flow_control;
		ret->conn.retry_count = conn.retry_count;
		ret->conn.rnr_retry_count = conn.rnr_retry_count;
		ret->conn.srq = conn.srq;
		ret->remote_ece = event->ece;
	}
	if (conn.data_len > 0 && !is_multicast(event)) {
		memcpy(ret->private_data, conn.data, conn.data_len);
		ret->conn.private_data = ret->private_data;
		ret->conn.private_data_len = conn.data_len;
	}
}

static void on_leftover_event(void *userdata, struct fabric_id *id, const struct ucm_event *event)
{
	struct fabric_event out;

	copy(&out, event, is_multicast(event) || restored_is_datagram(id));
	if (is_multicast(event)) {
		out.join = find_join(id, event);
		if (!out.join)
			return;
	}
	fabric_id_on_event(id, &out);
}

void fabric_takeover_listener(struct fabric *fabric, enum rdma_port_space ps,
			      const struct sockaddr_storage *local)
{
	if (fabric->leftovers)
		leftovers_end(fabric->leftovers, ps, local);
}

/* Copies the name of the device that has INDEX in netlink. */
static void find_device(struct fabric *fabric, uint32_t index, char ret[64])
{
	struct fabric_device *device = NULL;

	if (!fabric->nldev && nldev_new(&fabric->nldev) < 0)
		return;
	while ((device = fabric_next_device(fabric, device))) {
		struct nldev_device *nldev = &device->nldev;

		if (nldev->n_ports == 0 &&
		    nldev_find_device(fabric->nldev, device->name, nldev) < 0)
			continue;
		if (nldev->index == index)
			text_copy(ret, 64, device->name);
	}
}

static int scan_device(struct fabric *fabric, struct fabric_device *device)
{
	int r = fabric->nldev ? 0 : nldev_new(&fabric->nldev);

	if (r == 0 && device->nldev.n_ports == 0)
		r = nldev_find_device(fabric->nldev, device->name, &device->nldev);
	if (r == 0)
		r = cmscan_add(fabric->scanned, fabric->nldev, &device->nldev);
	if (r < 0) {
		/* A dump that has failed can have left answers. */
		fabric->nldev = nldev_free(fabric->nldev);
		log_warning(
			"Cannot find out which connections of %s the previous process has accepted: "
			"%s.",
			device->name, strerror(-r));
	}
	return r;
}

/* Scans once. If that fails, SCANNED stays NULL. While ids are destroyed a scan can lack others, see cmscan_add(). */
static void scan(struct fabric *fabric)
{
	struct fabric_device *device = NULL;
	int r;

	if (fabric->is_scanned)
		return;
	fabric->is_scanned = true;
	r = cmscan_new(&fabric->scanned);
	while (r == 0 && (device = fabric_next_device(fabric, device)))
		r = scan_device(fabric, device);
	if (r < 0)
		fabric->scanned = cmscan_free(fabric->scanned);
}

bool fabric_takeover_was_accepted(struct fabric *fabric, enum rdma_port_space ps,
				  const struct fabric_id_info *info)
{
	/* An accept has given the id a QP number. The number stays also if the accept has failed. */
	if (!fabric->leftovers ||
	    !leftovers_has_begun(fabric->leftovers, &info->local, &info->peer))
		return false;
	scan(fabric);
	return fabric->scanned && cmscan_has(fabric->scanned, ps, &info->local, &info->peer);
}

static int alloc(struct fabric_id **ret, struct fabric *fabric, struct owner owner, bool is_request)
{
	struct restored *restored = calloc(1, sizeof(*restored));
	int r;

	if (!restored)
		return -ENOMEM;
	r = fabric_id_alloc(ret, fabric, owner, is_request);
	if (r < 0) {
		free(restored);
		return r;
	}
	list_init(&restored->joins);
	(*ret)->restored = restored;
	return 0;
}

/* The partition of the id, as the kernel knows it: a previous process did not write it down. */
static void note_partition(struct restored *restored)
{
	const struct ucm_addresses *addresses = leftover_get_addresses(restored->leftover);

	if (addresses->port_num > 0)
		restored->info.pkey = fabric_info_partition(&restored->info, addresses->pkey);
}

static int take_request(struct fabric *fabric, struct leftover *leftover, enum rdma_port_space ps,
			struct fabric_event *event)
{
	const struct ucm_addresses *addresses = leftover_get_addresses(leftover);
	struct restored *restored;
	struct fabric_id *id;
	int r = alloc(&id, fabric, owner_of(geteuid()), /* is_request= */ true);

	if (r < 0)
		return r;
	leftover_claim(leftover, id);
	restored = id->restored;
	restored->leftover = leftover;
	restored->info.local = addresses->local;
	restored->info.peer = addresses->peer;
	restored->info.port_num = addresses->port_num;
	note_partition(restored);
	if (addresses->port_num > 0)
		find_device(fabric, addresses->device, id->device);
	id->ps = ps;
	event->request = id;
	fabric_id_set_request(id, event);
	return 0;
}

void fabric_takeover_requests(struct fabric *fabric, const void *busy, size_t busy_len,
			      fabric_request_fn on_request, void *userdata)
{
	struct ucm_event event;
	struct leftover *leftover;

	while (fabric->leftovers &&
	       (leftover = leftovers_next_request(fabric->leftovers, &event))) {
		enum rdma_port_space ps = leftover_get_listener_ps(leftover);
		struct fabric_event out;

		copy(&out, &event, ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB);
		/* What is not claimed is rejected by fabric_takeover_rest(). */
		if (ps == 0 || take_request(fabric, leftover, ps, &out) < 0 ||
		    on_request(userdata, ps, &out))
			continue;
		restored_reject(out.request, busy, busy_len, /* ece= */ false);
		fabric_id_free(out.request);
	}
}

/* Whether the id can be a connection request, which has attributes for RTR. */
static bool can_be_request(const struct leftover *leftover)
{
	struct ibv_qp_attr attr;
	int mask;

	return ucm_qp_attr(leftover_get_file(leftover), leftover_get_number(leftover), IBV_QPS_RTR,
			   &attr, &mask) == 0;
}

/* False also if it is not known. */
static bool is_unanswered(const struct fabric *fabric, const struct leftover *leftover)
{
	const struct ucm_addresses *addresses = leftover_get_addresses(leftover);

	return can_be_request(leftover) && fabric->scanned &&
	       !cmscan_has(fabric->scanned, /* ps= */ 0, &addresses->local, &addresses->peer);
}

/*
 * Ends an id that nobody has claimed: a connection request that was not answered is rejected, and a thread destroys the
 * id, because the kernel may wait. If memory runs out, the id ends with the file. The kernel disconnects or rejects
 * what it destroys. An id whose request or response was sent must not be rejected before: the kernel would go on
 * sending, and would not let it be destroyed for a minute or more. On iWARP, to destroy the id is enough in each state.
 */
static void end(struct fabric *fabric, struct leftover *leftover, const void *busy, size_t busy_len)
{
	const struct ucm_addresses *addresses = leftover_get_addresses(leftover);
	struct fabric_id *id;

	if (alloc(&id, fabric, owner_of(geteuid()), /* is_request= */ false) < 0) {
		leftover_forget(leftover);
		return;
	}
	leftover_claim(leftover, id);
	id->restored->leftover = leftover;
	id->restored->info.local = addresses->local;
	if (addresses->port_num > 0)
		find_device(fabric, addresses->device, id->device);
	id->is_request = is_unanswered(fabric, leftover) && !iwarp_has(id) &&
			 restored_reject(id, busy, busy_len, /* ece= */ false) == 0;
	fabric_id_free(id);
}

static void end_unclaimed(struct fabric *fabric, const void *busy, size_t busy_len)
{
	struct leftover *leftover;
	size_t position;

	/* Before the first one is destroyed. */
	for (position = 0; (leftover = leftovers_next_unclaimed(fabric->leftovers, &position));)
		if (can_be_request(leftover))
			scan(fabric);
	for (position = 0; (leftover = leftovers_next_unclaimed(fabric->leftovers, &position));)
		end(fabric, leftover, busy, busy_len);
	fabric->scanned = cmscan_free(fabric->scanned);
}

int fabric_takeover_rest(struct fabric *fabric, const void *busy, size_t busy_len)
{
	struct fabric_device *device = NULL;

	fabric->takes_over = false;
	while ((device = fabric_next_device(fabric, device))) {
		fabric_clear_entries(device);
		if (device->announced)
			fabric_scan_holders_of(device);
	}
	if (!fabric->leftovers)
		return 0;
	end_unclaimed(fabric, busy, busy_len);
	/* The ids that are made again need the ports of those that end. */
	if (!offload_settle(fabric->undertaker, SETTLE_MS))
		log_warning("The kernel does not end all connections of the previous process.");
	return leftovers_start(fabric->leftovers, fabric->loop, on_leftover_event, NULL);
}

void fabric_takeover_poll(struct fabric *fabric)
{
	if (fabric->leftovers)
		leftovers_poll(fabric->leftovers);
}

int fabric_get_files(struct fabric *fabric, int *ret_cm, int *ret_restored)
{
	int r = fabric_open_channel(fabric);

	*ret_cm = r == 0 ? fabric->cm->fd : -1;
	*ret_restored = fabric->leftovers ? leftovers_get_file(fabric->leftovers) : -1;
	return r;
}

int fabric_id_restore(struct fabric_id **ret, struct fabric *fabric, struct owner owner,
		      enum rdma_port_space ps, const struct fabric_id_info *info,
		      enum fabric_stage stage, bool passive, fabric_event_fn on_event,
		      void *userdata)
{
	struct restored *restored;
	struct fabric_id *id;
	int r = alloc(&id, fabric, owner, /* is_request= */ false);

	if (r < 0)
		return r;
	restored = id->restored;
	if (fabric->leftovers)
		restored->leftover =
			leftovers_claim(fabric->leftovers, &info->local, &info->peer, id);
	restored->info = *info;
	if (restored->leftover)
		note_partition(restored);
	id->on_event = on_event;
	id->userdata = userdata;
	id->ps = ps;
	id->is_request = passive;
	if (info->device)
		text_copy(id->device, sizeof(id->device), info->device);
	if (restored->leftover && !restored_is_datagram(id))
		id->stage = stage;
	*ret = id;
	return 0;
}

unsigned restored_count(const struct fabric_device *device)
{
	const struct leftovers *leftovers = device->fabric->leftovers;
	size_t position = 0;
	struct fabric_id *id;
	unsigned n = 0;

	while (leftovers && (id = leftovers_next(leftovers, &position)))
		n += strcmp(id->device, device->name) == 0;
	return n;
}
