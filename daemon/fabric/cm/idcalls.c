/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "fabric/cm/id.h"
#include "fabric/cm/iwarp.h"
#include "fabric/cm/restored.h"
#include "fabric/cm/typed.h"
#include "fabric/device/device.h"
#include "proto/addr.h"
#include "proto/pkey.h"

/*
 * What can be done with an id of librdmacm (rdma_cm_id). Here is no policy: who may do what, the core has decided. An id
 * that a previous process has made has no rdma_cm_id; for it, these functions call restored.c.
 */

static void copy_addr(struct sockaddr_storage *ret, const struct sockaddr *addr)
{
	socklen_t len = addr_len(addr);

	memset(ret, 0, sizeof(*ret));
	memcpy(ret, addr, len);
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

static uint16_t get_partition(const struct fabric_id *id, const struct fabric_id_info *info)
{
	const struct rdma_route *route = &id->cm->route;

	if (!has_device(id))
		return 0;
	/* The partition of a service look-up is not known, and there is no path: the answer is given in the listener's. */
	if (id->is_request && route->path_rec && route->num_paths > 0)
		return pkey_partition(ntohs(route->path_rec->pkey));
	return fabric_info_partition(info, ntohs(route->addr.addr.ibaddr.pkey));
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
	ret->pkey = get_partition(id, ret);
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

unsigned fabric_id_get_lmc(const struct fabric_id *id)
{
	const struct fabric_device *device =
		has_device(id) ? fabric_find_device(id->fabric, id->device) : NULL;

	return device ? fabric_device_get_lmc(device, id->cm->port_num) : 0;
}

/* The type is another one than that of the port space. */
static bool has_type(const struct fabric_id *id)
{
	return id->qp_type != 0 && id->qp_type != IBV_QPT_RC;
}

/* The id gets a new rdma_cm_id, without the options of the old one. */
static int bind_typed(struct fabric_id *id, const struct sockaddr *addr)
{
	int r = typed_bind(id, addr);

	for (int i = 0; i < FABRIC_OPTIONS && r == 0; i++)
		if (id->set[i] >= 0)
			r = fabric_id_set_option(id, i, id->set[i]);
	return r;
}

static int bind_to(struct fabric_id *id, const struct sockaddr *addr)
{
	return has_type(id) ? bind_typed(id, addr) :
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
	if (fabric_id_has_to_wait(id, r, htons((uint16_t)addr_port(addr))))
		return -EINPROGRESS;
	/*
	 * ENOTTY comes from /dev/null, which replaces the descriptor of a device that is being removed, see
	 * opener.h.
	 */
	return r == -ENOTTY ? -ENODEV : r;
}

static int listen_with(struct fabric_id *id, int backlog, bool restores)
{
	int r;

	if (!id->cm)
		return -EINVAL;
	if (id->call || iwarp_may_wait_to_listen(id))
		return iwarp_listen(id, backlog, restores);
	r = cm_result(rdma_listen(id->cm, backlog));
	fabric_id_note_device(id);
	/* Ids with REUSEADDR can share a port when they bind, but one listens only when it has the port alone. */
	return !restores && fabric_id_has_to_wait(id, r, rdma_get_src_port(id->cm)) ? -EINPROGRESS :
										      r;
}

int fabric_id_listen(struct fabric_id *id, int backlog)
{
	/* The outcome of this id's listen is there, although another one waits. */
	if (!id->call && fabric_is_opening(id->fabric))
		return -EINPROGRESS;
	return listen_with(id, backlog, /* restores= */ false);
}

int fabric_id_listen_anew(struct fabric_id *id, int backlog)
{
	return listen_with(id, backlog, /* restores= */ true);
}

int fabric_id_resolve_addr(struct fabric_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst, int timeout_ms)
{
	int r;

	if (!id->cm)
		return -EINVAL;
	if (fabric_is_opening(id->fabric))
		return -EINPROGRESS;
	if (has_type(id) && rdma_get_local_addr(id->cm)->sa_family == AF_UNSPEC) {
		struct sockaddr_storage any = { .ss_family = dst->sa_family };

		r = bind_typed(id, src ?: (struct sockaddr *)&any);
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

static bool is_datagram(const struct fabric_id *id)
{
	return id->restored ? restored_is_datagram(id) : id->cm->qp_type == IBV_QPT_UD;
}

/* The kernel's drivers look for the QP of such an id, and warn as of a fault of their own that there is none. */
static bool lacks_datagrams(const struct fabric_id *id)
{
	return is_datagram(id) && iwarp_has(id);
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
	if (r == 0 && !is_datagram(id))
		id->stage = STAGE_ASKED;
	return r;
}

int fabric_id_accept(struct fabric_id *id, const struct rdma_conn_param *param)
{
	int r;

	if (lacks_datagrams(id))
		return -EOPNOTSUPP;
	if (!id->restored && !has_device(id))
		return -EINVAL;
	if (iwarp_has(id))
		return iwarp_accept(id, param);
	r = id->restored ? restored_accept(id, param) :
			   cm_result(rdma_accept(id->cm, (struct rdma_conn_param *)param));
	if (r == 0 && !is_datagram(id))
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
	enum rdma_port_space ps = id->cm ? id->cm->ps : id->ps;

	if (ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB)
		return -EINVAL;
	switch (type) {
	case IBV_QPT_UC:
	case IBV_QPT_UD:
		/* In the other port spaces the kernel does not take the type from its caller. */
		if (ps != RDMA_PS_IB)
			return -EINVAL;
		break;
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		break;
	default:
		return -EINVAL;
	}
	id->qp_type = type;
	return 0;
}

int fabric_id_qp_attr(struct fabric_id *id, enum ibv_qp_state state, struct ibv_qp_attr *ret_attr,
		      int *ret_mask)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	struct fabric_id_info info;
	int mask = 0, r;

	if (iwarp_is_calling(id))
		return -EBUSY;
	r = id->cm ? cm_result(rdma_init_qp_attr(id->cm, &attr, &mask)) :
		     restored_qp_attr(id, state, &attr, &mask);
	if (r < 0)
		return r;
	/* libibverbs rejects the bits that only the kernel uses (RoCE's resolved addresses). */
	mask &= (IBV_QP_DEST_QPN << 1) - 1;
	if (state == IBV_QPS_INIT && !(mask & IBV_QP_PORT)) {
		fabric_id_get_info(id, &info);
		attr.port_num = info.port_num;
	}
	*ret_attr = attr;
	*ret_mask = mask;
	return 0;
}
