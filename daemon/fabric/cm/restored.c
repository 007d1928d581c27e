/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/cm/id.h"
#include "fabric/cm/iwarp.h"
#include "fabric/cm/leftover.h"
#include "fabric/cm/restored.h"
#include "proto/addr.h"

/* Ids that a previous process has made, and what can be done with them. leftover.c does what the kernel is asked for. */

bool restored_is_datagram(const struct fabric_id *id)
{
	return id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB || id->qp_type == IBV_QPT_UD;
}

static bool has_qp_attr(const struct fabric_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;
	int mask;

	return restored_qp_attr(id, state, &attr, &mask) == 0;
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

int restored_accept(const struct fabric_id *id, const struct rdma_conn_param *param)
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
	int fd;

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
	return ucm_accept(fd, number, &conn, &restored->ece);
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
