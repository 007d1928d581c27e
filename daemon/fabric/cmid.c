/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/internal.h"
#include "fabric/iwarp.h"
#include "fabric/xrc.h"
#include "proto/addr.h"
#include "proto/text.h"
#include "util/owner.h"
#include "util/util.h"

/*
 * Ids of librdmacm (rdma_cm_id): how they are made, what can be done with them, and how a thread destroys them,
 * because rdma_destroy_id() can wait for the kernel. Here is no policy: who may do what, the core has decided. An id
 * that a previous process has made has no rdma_cm_id; for it, these functions call restored.c.
 */

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

int fabric_id_alloc(struct fabric_id **ret, struct fabric *fabric, uid_t uid, bool is_request)
{
	struct fabric_id *id = calloc(1, sizeof(*id));
	int r;

	if (!id)
		return -ENOMEM;
	id->fabric = fabric;
	id->uid = uid;
	id->job.run = destroy;
	id->job.done = on_destroyed;
	for (int i = 0; i < FABRIC_OPTIONS; i++)
		id->set[i] = -1;
	list_init(&id->dying);
	list_init(&id->leaving);
	id->is_unwanted = is_request;
	id->is_request = is_request;
	r = offload_prepare(fabric->undertaker, &id->job,
			    owner_of(uid) | (is_request ? LANE_OF_UNWANTED : 0));
	if (r < 0) {
		free(id);
		return r;
	}
	*ret = id;
	return 0;
}

int fabric_id_new(struct fabric_id **ret, struct fabric *fabric, uid_t uid, enum rdma_port_space ps,
		  fabric_event_fn on_event, void *userdata)
{
	struct fabric_id *id;
	int r;

	r = fabric_open_channel(fabric);
	if (r < 0)
		return r;
	if (account_get_used(&fabric->ending, ACCOUNT_IDS, uid) >= ENDING_PER_USER)
		return -EDQUOT;
	r = fabric_id_alloc(&id, fabric, uid, /* is_request= */ false);
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

int fabric_id_adopt(struct fabric_id **ret, struct fabric *fabric, uid_t uid, struct rdma_cm_id *cm)
{
	struct fabric_id *id;
	int r = fabric_id_alloc(&id, fabric, uid, /* is_request= */ true);

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
	account_add(&id->fabric->ending, &id->ending, ACCOUNT_IDS, 1, id->uid);
	list_insert(dying_with(id->fabric, id->port), &id->dying);
	count_dying(id, 1);
	if (id->call)
		iwarp_cancel(id->call);
	else
		offload_submit(id->fabric->undertaker, &id->job);
	return NULL;
}

void fabric_id_set_owner(struct fabric_id *id, uid_t uid, fabric_event_fn on_event, void *userdata)
{
	bool moves = uid != id->uid || id->is_unwanted;
	struct offload_job job;

	id->on_event = on_event;
	id->userdata = userdata;
	id->is_unwanted = false;
	/* If memory runs out, the id keeps its lane and its uid. */
	if (!moves || offload_prepare(id->fabric->undertaker, &job, owner_of(uid)) < 0)
		return;
	offload_release(&id->job);
	id->job.lane = job.lane;
	id->uid = uid;
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
static bool has_to_wait(const struct fabric_id *id, int r, in_port_t port)
{
	return (r == -EADDRINUSE || r == -EADDRNOTAVAIL) && port > 0 &&
	       is_being_freed(id->fabric, id->cm->ps, port);
}

static void copy_addr(struct sockaddr_storage *ret, const struct sockaddr *addr)
{
	socklen_t len = addr_len(addr);

	memset(ret, 0, sizeof(*ret));
	memcpy(ret, addr, len);
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

/* Some functions of librdmacm dereference a null pointer if the id has no device. */
static bool has_device(const struct fabric_id *id)
{
	return id->cm && id->cm->verbs;
}

/* *RET is all zero if the GID is the address, as on Ethernet and in AF_IB. */
static void copy_gid(union ibv_gid *ret, const union ibv_gid *gid,
		     const struct sockaddr_storage *addr)
{
	union ibv_gid host;

	addr_host((const struct sockaddr *)addr, host.raw);
	*ret = *gid;
	if (memcmp(host.raw, gid->raw, sizeof(host.raw)) == 0)
		*ret = (union ibv_gid){ 0 };
}

void fabric_id_get_info(const struct fabric_id *id, struct fabric_id_info *ret)
{
	struct rdma_cm_id *cm = id->cm;

	if (id->restored) {
		restored_get_info(id, ret);
		return;
	}
	copy_addr(&ret->local, rdma_get_local_addr(cm));
	copy_addr(&ret->peer, rdma_get_peer_addr(cm));
	ret->device = id->device[0] ? id->device : NULL;
	ret->port_num = has_device(id) ? cm->port_num : 0;
	copy_gid(&ret->gids[0], &cm->route.addr.addr.ibaddr.sgid, &ret->local);
	copy_gid(&ret->gids[1], &cm->route.addr.addr.ibaddr.dgid, &ret->peer);
}

size_t fabric_id_get_paths(const struct fabric_id *id, struct ibv_sa_path_rec ret[PATHS_MAX])
{
	const struct rdma_route *route = id->cm ? &id->cm->route : NULL;
	size_t n = 0;

	if (route && route->path_rec && route->num_paths > 0)
		n = (size_t)route->num_paths;
	if (n > PATHS_MAX)
		n = PATHS_MAX;
	for (size_t i = 0; i < n; i++)
		ret[i] = route->path_rec[i];
	return n;
}

static bool is_xrc(const struct fabric_id *id)
{
	return id->qp_type == IBV_QPT_XRC_SEND || id->qp_type == IBV_QPT_XRC_RECV;
}

static int bind_to(struct fabric_id *id, const struct sockaddr *addr)
{
	return is_xrc(id) ? xrc_bind(id, addr) :
			    cm_result(rdma_bind_addr(id->cm, (struct sockaddr *)addr));
}

int fabric_id_bind(struct fabric_id *id, const struct sockaddr *addr)
{
	int r;

	if (!id->cm)
		return -EINVAL;
	if (fabric_is_opening(id->fabric))
		return -EINPROGRESS;
	r = bind_to(id, addr);
	fabric_id_note_device(id);
	if (has_to_wait(id, r, htons((uint16_t)addr_port(addr))))
		return -EINPROGRESS;
	/*
	 * ENOTTY comes from /dev/null, which replaces the descriptor of a device that is being removed, see
	 * opener.h.
	 */
	return r == -ENOTTY ? -ENODEV : r;
}

int fabric_id_listen(struct fabric_id *id, int backlog)
{
	int r;

	if (!id->cm)
		return -EINVAL;
	if (fabric_is_opening(id->fabric))
		return -EINPROGRESS;
	r = cm_result(rdma_listen(id->cm, backlog));
	fabric_id_note_device(id);
	/* Ids with REUSEADDR can be bound to one port, but not listen there. */
	return has_to_wait(id, r, rdma_get_src_port(id->cm)) ? -EINPROGRESS : r;
}

int fabric_id_resolve_addr(struct fabric_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst, int timeout_ms)
{
	int r;

	if (!id->cm)
		return -EINVAL;
	if (fabric_is_opening(id->fabric))
		return -EINPROGRESS;
	if (is_xrc(id) && rdma_get_local_addr(id->cm)->sa_family == AF_UNSPEC) {
		struct sockaddr_storage any = { .ss_family = dst->sa_family };

		r = xrc_bind(id, src ?: (struct sockaddr *)&any);
		if (r < 0)
			return r;
		src = NULL;
	}
	return cm_result(rdma_resolve_addr(id->cm, (struct sockaddr *)src, (struct sockaddr *)dst,
					   timeout_ms));
}

/* Can block: if the ibacm service runs, librdmacm queries it first and waits for its reply. */
int fabric_id_resolve_route(struct fabric_id *id, int timeout_ms)
{
	if (!has_device(id))
		return -EINVAL;
	return cm_result(rdma_resolve_route(id->cm, timeout_ms));
}

int fabric_id_set_path(struct fabric_id *id, const struct ibv_path_record *path)
{
	/* The kernel takes only a path with these flags. */
	struct ibv_path_data data = {
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = *path,
	};

	if (!has_device(id))
		return -EINVAL;
	return cm_result(
		rdma_set_option(id->cm, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data)));
}

bool fabric_id_is_iwarp(const struct fabric_id *id)
{
	return iwarp_has(id);
}

/* The kernel's drivers look for the QP of such an id, and warn as of a fault of their own that there is none. */
static bool lacks_datagrams(const struct fabric_id *id)
{
	enum rdma_port_space ps = id->cm ? id->cm->ps : id->ps;

	return (ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB) && iwarp_has(id);
}

int fabric_id_connect(struct fabric_id *id, const struct rdma_conn_param *param)
{
	int r;

	if (!has_device(id))
		return -EINVAL;
	if (lacks_datagrams(id))
		return -EOPNOTSUPP;
	if (iwarp_has(id))
		return iwarp_connect(id, param);
	r = cm_result(rdma_connect(id->cm, (struct rdma_conn_param *)param));
	if (r == 0 && id->cm->qp_type != IBV_QPT_UD)
		id->stage = STAGE_ASKED;
	return r;
}

int fabric_id_accept(struct fabric_id *id, const struct rdma_conn_param *param)
{
	int r;

	if (lacks_datagrams(id))
		return -EOPNOTSUPP;
	if (id->restored)
		return restored_accept(id, param);
	if (!has_device(id))
		return -EINVAL;
	r = cm_result(rdma_accept(id->cm, (struct rdma_conn_param *)param));
	if (r == 0 && id->cm->qp_type != IBV_QPT_UD)
		id->stage = STAGE_ACCEPTED;
	return r;
}

int fabric_id_establish(struct fabric_id *id)
{
	int r;

	if (iwarp_is_calling(id))
		return -EBUSY;
	r = id->cm ? cm_result(rdma_establish(id->cm)) : restored_establish(id);

	if (r == 0)
		id->stage = STAGE_ESTABLISHED;
	return r;
}

int fabric_id_reject(struct fabric_id *id, const void *data, uint8_t len, bool ece)
{
	if (iwarp_is_calling(id))
		return -EBUSY;
	if (!id->cm)
		return restored_reject(id, data, len, ece);
	return cm_result(ece ? rdma_reject_ece(id->cm, data, len) : rdma_reject(id->cm, data, len));
}

int fabric_id_disconnect(struct fabric_id *id)
{
	if (iwarp_puts_off_disconnect(id))
		return 0;
	if (id->restored)
		return restored_disconnect(id);
	return cm_result(rdma_disconnect(id->cm));
}

int fabric_id_notify(struct fabric_id *id, enum ibv_event_type event)
{
	if (iwarp_is_calling(id))
		return -EBUSY;
	return id->cm ? cm_result(rdma_notify(id->cm, event)) : restored_notify(id, event);
}

int fabric_id_set_local_ece(struct fabric_id *id, const struct ibv_ece *ece)
{
	struct ibv_ece copy = *ece;

	return id->cm ? cm_result(rdma_set_local_ece(id->cm, &copy)) :
			restored_set_local_ece(id, ece);
}

int fabric_id_set_option(struct fabric_id *id, int option, int value)
{
	bool is_byte = option == RDMA_OPTION_ID_TOS || option == RDMA_OPTION_ID_ACK_TIMEOUT;
	uint8_t byte = (uint8_t)value;
	void *p = is_byte ? (void *)&byte : (void *)&value;
	size_t len = is_byte ? sizeof(byte) : sizeof(value);
	int r;

	if (is_byte && byte != value)
		return -EINVAL;
	if (iwarp_is_calling(id))
		return -EBUSY;
	r = id->cm ? cm_result(rdma_set_option(id->cm, RDMA_OPTION_ID, option, p, len)) :
		     restored_set_option(id, option, p, len);
	if (r == 0)
		id->set[option] = (int16_t)value;
	return r;
}

int fabric_id_set_qp_type(struct fabric_id *id, enum ibv_qp_type type)
{
	if (type != IBV_QPT_RC && type != IBV_QPT_XRC_SEND && type != IBV_QPT_XRC_RECV)
		return -EINVAL;
	if (!id->cm || id->cm->qp_type == IBV_QPT_UD)
		return -EINVAL;
	id->qp_type = type;
	return 0;
}

int fabric_id_qp_attr(struct fabric_id *id, enum ibv_qp_state state, struct ibv_qp_attr *ret_attr,
		      int *ret_mask)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0, r;

	if (iwarp_is_calling(id))
		return -EBUSY;
	r = id->cm ? cm_result(rdma_init_qp_attr(id->cm, &attr, &mask)) :
		     restored_qp_attr(id, state, &attr, &mask);
	if (r < 0)
		return r;
	/* libibverbs rejects the bits that only the kernel uses (RoCE's resolved addresses). */
	mask &= (IBV_QP_DEST_QPN << 1) - 1;
	*ret_attr = attr;
	*ret_mask = mask;
	return 0;
}
