/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/cmscan.h"
#include "fabric/internal.h"
#include "fabric/iwarp.h"
#include "fabric/leftover.h"
#include "proto/addr.h"
#include "proto/text.h"
#include "util/log.h"
#include "util/util.h"

/* Ids that a previous process has made, as the layers above see them. leftover.c does what the kernel is asked for. */

#define SETTLE_MS 1000 /* for which the take-over waits until ids are destroyed */

struct restored {
	struct leftover *leftover; /* NULL: the kernel has no such id any more */
	struct fabric_id_info info; /* its device is fabric_id.device */
	struct list joins; /* fabric_join.link */
	struct ibv_ece ece; /* for the next accept */
	/* What the connection request allows, for an accept that leaves it to that. */
	uint8_t responder_resources, initiator_depth;
};

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
	if (fabric->ops->takes_over)
		fabric->ops->takes_over(fabric->userdata, leftovers_get_file(fabric->leftovers));
	return leftovers_take(fabric->leftovers, files, n_files, n_expected);
}

static bool is_datagram(const struct fabric_id *id)
{
	return id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB;
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

	copy(&out, event, is_multicast(event) || is_datagram(id));
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

static int alloc(struct fabric_id **ret, struct fabric *fabric, uid_t uid, bool is_request)
{
	struct restored *restored = calloc(1, sizeof(*restored));
	int r;

	if (!restored)
		return -ENOMEM;
	r = fabric_id_alloc(ret, fabric, uid, is_request);
	if (r < 0) {
		free(restored);
		return r;
	}
	list_init(&restored->joins);
	(*ret)->restored = restored;
	return 0;
}

static int take_request(struct fabric *fabric, struct leftover *leftover, enum rdma_port_space ps,
			struct fabric_event *event)
{
	const struct ucm_addresses *addresses = leftover_get_addresses(leftover);
	struct restored *restored;
	struct fabric_id *id;
	int r = alloc(&id, fabric, geteuid(), /* is_request= */ true);

	if (r < 0)
		return r;
	leftover_claim(leftover, id);
	restored = id->restored;
	restored->leftover = leftover;
	restored->info.local = addresses->local;
	restored->info.peer = addresses->peer;
	restored->info.port_num = addresses->port_num;
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

static bool has_qp_attr(const struct fabric_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;
	int mask;

	return restored_qp_attr(id, state, &attr, &mask) == 0;
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

	if (alloc(&id, fabric, geteuid(), /* is_request= */ false) < 0) {
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

int fabric_get_files(struct fabric *fabric, int *ret_cm, int *ret_leftovers)
{
	int r = fabric_open_channel(fabric);

	*ret_cm = r == 0 ? fabric->cm->fd : -1;
	*ret_leftovers = fabric->leftovers ? leftovers_get_file(fabric->leftovers) : -1;
	return r;
}

int fabric_id_restore(struct fabric_id **ret, struct fabric *fabric, uid_t uid,
		      enum rdma_port_space ps, const struct fabric_id_info *info,
		      enum fabric_stage stage, bool passive, fabric_event_fn on_event,
		      void *userdata)
{
	struct restored *restored;
	struct fabric_id *id;
	int r = alloc(&id, fabric, uid, /* is_request= */ false);

	if (r < 0)
		return r;
	restored = id->restored;
	if (fabric->leftovers)
		restored->leftover =
			leftovers_claim(fabric->leftovers, &info->local, &info->peer, id);
	restored->info = *info;
	id->on_event = on_event;
	id->userdata = userdata;
	id->ps = ps;
	id->is_request = passive;
	if (info->device)
		text_copy(id->device, sizeof(id->device), info->device);
	if (restored->leftover && !is_datagram(id))
		id->stage = stage;
	*ret = id;
	return 0;
}

void fabric_id_set_request(struct fabric_id *id, const struct fabric_event *event)
{
	id->restored->responder_resources = event->conn.responder_resources;
	id->restored->initiator_depth = event->conn.initiator_depth;
}

bool fabric_id_exists(const struct fabric_id *id)
{
	return id->restored->leftover;
}

bool fabric_id_is_connected(const struct fabric_id *id)
{
	return has_qp_attr(id, IBV_QPS_RTS);
}

bool fabric_id_is_asking(const struct fabric_id *id)
{
	struct ibv_qp_attr attr;
	int mask;

	/* Before the connect, the kernel allows the peer nothing. */
	if (iwarp_has(id))
		return restored_qp_attr(id, IBV_QPS_INIT, &attr, &mask) == 0 &&
		       attr.qp_access_flags != 0;
	return has_qp_attr(id, IBV_QPS_INIT) && !has_qp_attr(id, IBV_QPS_RTR);
}

void restored_get_info(const struct fabric_id *id, struct fabric_id_info *ret)
{
	*ret = id->restored->info;
	ret->device = id->device[0] ? id->device : NULL;
}

/* Sets *RET to the file and returns true, if the kernel has the id. */
static bool get(const struct fabric_id *id, int *ret, uint32_t *ret_number)
{
	const struct leftover *leftover = id->restored->leftover;

	if (!leftover)
		return false;
	*ret = leftover_get_file(leftover);
	*ret_number = leftover_get_number(leftover);
	return true;
}

in_port_t restored_get_port(const struct fabric_id *id)
{
	const struct sockaddr *local = (const struct sockaddr *)&id->restored->info.local;

	return id->restored->leftover ? htons(addr_port(local)) : 0;
}

int restored_accept(struct fabric_id *id, const struct rdma_conn_param *param)
{
	const struct restored *restored = id->restored;
	struct ucm_conn conn = {
		.qpn = param->qp_num,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.flow_control = param->flow_control,
		.retry_count = param->retry_count,
		.rnr_retry_count = param->rnr_retry_count,
		.srq = param->srq,
	};
	uint32_t number;
	int fd, r;

	if (!get(id, &fd, &number))
		return -EINVAL;
	if (param->responder_resources == RDMA_MAX_RESP_RES)
		conn.responder_resources = restored->responder_resources;
	if (param->initiator_depth == RDMA_MAX_INIT_DEPTH)
		conn.initiator_depth = restored->initiator_depth;
	if (param->private_data) {
		conn.data_len = param->private_data_len;
		memcpy(conn.data, param->private_data, conn.data_len);
	}
	r = ucm_accept(fd, number, &conn, &restored->ece);
	if (r == 0 && !is_datagram(id))
		id->stage = STAGE_ACCEPTED;
	return r;
}

int restored_establish(const struct fabric_id *id)
{
	uint32_t number;
	int fd, r;

	if (!get(id, &fd, &number))
		return -EINVAL;
	r = ucm_establish(fd, number);
	/* A previous process has done it already, and died before it could write that down. */
	return r == -EINVAL && fabric_id_is_connected(id) ? 0 : r;
}

int restored_reject(const struct fabric_id *id, const void *data, size_t len, bool ece)
{
	uint32_t number;
	int fd;

	/* The reason is that of rdma_reject_ece(): a vendor option is not supported. */
	return get(id, &fd, &number) ? ucm_reject(fd, number, data, len, ece ? 35 : 0) : -EINVAL;
}

int restored_disconnect(const struct fabric_id *id)
{
	uint32_t number;
	int fd;

	return get(id, &fd, &number) ? ucm_disconnect(fd, number) : 0;
}

int restored_notify(const struct fabric_id *id, enum ibv_event_type event)
{
	uint32_t number;
	int fd;

	return get(id, &fd, &number) ? ucm_notify(fd, number, event) : -EINVAL;
}

int restored_set_local_ece(const struct fabric_id *id, const struct ibv_ece *ece)
{
	id->restored->ece = *ece;
	return 0;
}

int restored_set_option(const struct fabric_id *id, int option, const void *value, size_t len)
{
	uint32_t number;
	int fd;

	return get(id, &fd, &number) ? ucm_set_option(fd, number, option, value, len) : -EINVAL;
}

int restored_qp_attr(const struct fabric_id *id, enum ibv_qp_state state,
		     struct ibv_qp_attr *ret_attr, int *ret_mask)
{
	uint32_t number;
	int fd;

	return get(id, &fd, &number) ? ucm_qp_attr(fd, number, state, ret_attr, ret_mask) : -EINVAL;
}

int restored_join(struct fabric_join *join, uint32_t join_flags)
{
	uint32_t number;
	int fd, r;

	if (!get(join->id, &fd, &number))
		return -EINVAL;
	r = ucm_join(fd, number, &join->addr, (uint16_t)join_flags, (uintptr_t)join, &join->number);
	if (r == 0)
		restored_add_join(join);
	return r;
}

void restored_add_join(struct fabric_join *join)
{
	list_insert(&join->id->restored->joins, &join->link);
}

void restored_leave(struct fabric_join *join)
{
	uint32_t number;
	int fd;

	list_remove(&join->link);
	if (!join->is_old && get(join->id, &fd, &number))
		ucm_leave(fd, join->number);
}

void restored_destroy(const struct fabric_id *id)
{
	uint32_t number;
	int fd;

	if (!get(id, &fd, &number))
		return;
	if (id->disconnects)
		ucm_disconnect(fd, number);
	ucm_destroy(fd, number);
}

void restored_free(struct fabric_id *id)
{
	if (!id->restored)
		return;
	if (id->restored->leftover)
		leftover_forget(id->restored->leftover);
	free(id->restored);
	id->restored = NULL;
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
