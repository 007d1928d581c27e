/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>
#include <unistd.h>

#include "fabric/cm/ucm.h"
#include "proto/addr.h"

#define NODE "/dev/infiniband/rdma_cm"

/* A command is written as a header and its parameters. The kernel writes the response to where they point. */
static int command(int fd, uint32_t cmd, const void *in, size_t in_len, size_t out_len)
{
	struct {
		struct rdma_ucm_cmd_hdr header;
		uint8_t in[sizeof(struct rdma_ucm_accept)];
	} __attribute__((packed)) message = {
		.header = { .cmd = cmd, .in = (uint16_t)in_len, .out = (uint16_t)out_len },
	};
	size_t len = sizeof(message.header) + in_len;

	memcpy(message.in, in, in_len);
	return write(fd, &message, len) == (ssize_t)len ? 0 : -errno;
}

static void in_ah(struct ibv_ah_attr *ret, const struct ib_uverbs_ah_attr *attr)
{
	*ret = (struct ibv_ah_attr){
		.grh = {
			.flow_label = attr->grh.flow_label,
			.sgid_index = attr->grh.sgid_index,
			.hop_limit = attr->grh.hop_limit,
			.traffic_class = attr->grh.traffic_class,
		},
		.dlid = attr->dlid,
		.sl = attr->sl,
		.src_path_bits = attr->src_path_bits,
		.static_rate = attr->static_rate,
		.is_global = attr->is_global,
		.port_num = attr->port_num,
	};
	memcpy(ret->grh.dgid.raw, attr->grh.dgid, sizeof(ret->grh.dgid.raw));
}

static void in_qp(struct ibv_qp_attr *ret, const struct ib_uverbs_qp_attr *attr)
{
	*ret = (struct ibv_qp_attr){
		.qp_state = (enum ibv_qp_state)attr->qp_state,
		.cur_qp_state = (enum ibv_qp_state)attr->cur_qp_state,
		.path_mtu = (enum ibv_mtu)attr->path_mtu,
		.path_mig_state = (enum ibv_mig_state)attr->path_mig_state,
		.qkey = attr->qkey,
		.rq_psn = attr->rq_psn,
		.sq_psn = attr->sq_psn,
		.dest_qp_num = attr->dest_qp_num,
		.qp_access_flags = attr->qp_access_flags,
		.cap = {
			.max_send_wr = attr->max_send_wr,
			.max_recv_wr = attr->max_recv_wr,
			.max_send_sge = attr->max_send_sge,
			.max_recv_sge = attr->max_recv_sge,
			.max_inline_data = attr->max_inline_data,
		},
		.pkey_index = attr->pkey_index,
		.alt_pkey_index = attr->alt_pkey_index,
		.en_sqd_async_notify = attr->en_sqd_async_notify,
		.sq_draining = attr->sq_draining,
		.max_rd_atomic = attr->max_rd_atomic,
		.max_dest_rd_atomic = attr->max_dest_rd_atomic,
		.min_rnr_timer = attr->min_rnr_timer,
		.port_num = attr->port_num,
		.timeout = attr->timeout,
		.retry_cnt = attr->retry_cnt,
		.rnr_retry = attr->rnr_retry,
		.alt_port_num = attr->alt_port_num,
		.alt_timeout = attr->alt_timeout,
	};
	in_ah(&ret->ah_attr, &attr->ah_attr);
	in_ah(&ret->alt_ah_attr, &attr->alt_ah_attr);
}

int ucm_open(void)
{
	int fd = open(NODE, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

int ucm_move(int fd, int from, uint32_t id)
{
	struct rdma_ucm_migrate_resp out;
	struct rdma_ucm_migrate_id in = {
		.response = (uintptr_t)&out,
		.id = id,
		.fd = (uint32_t)from,
	};

	return command(fd, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof(in), sizeof(out));
}

int ucm_query_addresses(int fd, uint32_t id, struct ucm_addresses *ret)
{
	struct rdma_ucm_query_addr_resp out = { 0 };
	struct rdma_ucm_query in = {
		.response = (uintptr_t)&out,
		.id = id,
		.option = RDMA_USER_CM_QUERY_ADDR,
	};
	int r = command(fd, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), sizeof(out));

	if (r < 0)
		return r;
	*ret = (struct ucm_addresses){
		.port_num = out.port_num,
		.device = out.ibdev_index,
		.pkey = ntohs(out.pkey),
	};
	if (out.src_size <= sizeof(ret->local))
		memcpy(&ret->local, &out.src_addr, out.src_size);
	if (out.dst_size <= sizeof(ret->peer))
		memcpy(&ret->peer, &out.dst_addr, out.dst_size);
	return 0;
}

int ucm_get_event(int fd, struct ucm_event *ret)
{
	struct rdma_ucm_event_resp out = { 0 };
	struct rdma_ucm_get_event in = { .response = (uintptr_t)&out };
	int r = command(fd, RDMA_USER_CM_CMD_GET_EVENT, &in, sizeof(in), sizeof(out));

	_Static_assert(sizeof(out.param) <= sizeof(ret->param), "param");
	if (r < 0)
		return r;
	*ret = (struct ucm_event){
		.id = out.id,
		.type = (int)out.event,
		.status = (int)out.status,
		.userdata = out.uid,
		.ece = { .vendor_id = out.ece.vendor_id, .options = out.ece.attr_mod },
	};
	memcpy(ret->param, &out.param, sizeof(out.param));
	return 0;
}

void ucm_event_get(const struct ucm_event *event, bool datagram, struct ucm_conn *ret)
{
	const struct rdma_ucm_conn_param *conn = (const struct rdma_ucm_conn_param *)event->param;
	const struct rdma_ucm_ud_param *ud = (const struct rdma_ucm_ud_param *)event->param;

	*ret = (struct ucm_conn){ .qpn = conn->qp_num, .qkey = conn->qkey };
	if (datagram) {
		ret->data_len = ud->private_data_len;
		memcpy(ret->data, ud->private_data, sizeof(ret->data));
		in_ah(&ret->ah, &ud->ah_attr);
		return;
	}
	ret->responder_resources = conn->responder_resources;
	ret->initiator_depth = conn->initiator_depth;
	ret->flow_control = conn->flow_control;
	ret->retry_count = conn->retry_count;
	ret->rnr_retry_count = conn->rnr_retry_count;
	ret->srq = conn->srq;
	ret->data_len = conn->private_data_len;
	memcpy(ret->data, conn->private_data, sizeof(ret->data));
}

int ucm_qp_attr(int fd, uint32_t id, enum ibv_qp_state state, struct ibv_qp_attr *ret_attr,
		int *ret_mask)
{
	struct ib_uverbs_qp_attr out = { 0 };
	struct rdma_ucm_init_qp_attr in = {
		.response = (uintptr_t)&out,
		.id = id,
		.qp_state = state,
	};
	int r = command(fd, RDMA_USER_CM_CMD_INIT_QP_ATTR, &in, sizeof(in), sizeof(out));

	if (r < 0)
		return r;
	in_qp(ret_attr, &out);
	*ret_mask = (int)out.qp_attr_mask;
	return 0;
}

int ucm_accept(int fd, uint32_t id, const struct ucm_conn *conn, const struct ibv_ece *ece)
{
	struct rdma_ucm_accept in = {
		.uid = 1, /* not 0: the kernel would drop the id's events; nobody needs the value */
		.id = id,
		.conn_param = {
			.qp_num = conn->qpn,
			.qkey = conn->qkey,
			.private_data_len = conn->data_len,
			.srq = conn->srq,
			.responder_resources = conn->responder_resources,
			.initiator_depth = conn->initiator_depth,
			.flow_control = conn->flow_control,
			.retry_count = conn->retry_count,
			.rnr_retry_count = conn->rnr_retry_count,
			.valid = 1,
		},
		.ece = { .vendor_id = ece->vendor_id, .attr_mod = ece->options },
	};

	memcpy(in.conn_param.private_data, conn->data, sizeof(conn->data));
	return command(fd, RDMA_USER_CM_CMD_ACCEPT, &in, sizeof(in), 0);
}

/* Without parameters, an accept of the active side is the confirmation. */
int ucm_establish(int fd, uint32_t id)
{
	struct rdma_ucm_accept in = { .id = id };

	return command(fd, RDMA_USER_CM_CMD_ACCEPT, &in, sizeof(in), 0);
}

int ucm_disconnect(int fd, uint32_t id)
{
	struct rdma_ucm_disconnect in = { .id = id };

	return command(fd, RDMA_USER_CM_CMD_DISCONNECT, &in, sizeof(in), 0);
}

int ucm_reject(int fd, uint32_t id, const void *data, size_t len, uint8_t reason)
{
	struct rdma_ucm_reject in = { .id = id, .reason = reason };

	if (len > sizeof(in.private_data))
		return -EINVAL;
	in.private_data_len = (uint8_t)len;
	if (len > 0)
		memcpy(in.private_data, data, len);
	return command(fd, RDMA_USER_CM_CMD_REJECT, &in, sizeof(in), 0);
}

int ucm_notify(int fd, uint32_t id, enum ibv_event_type event)
{
	struct rdma_ucm_notify in = { .id = id, .event = event };

	return command(fd, RDMA_USER_CM_CMD_NOTIFY, &in, sizeof(in), 0);
}

int ucm_set_option(int fd, uint32_t id, int option, const void *value, size_t len)
{
	struct rdma_ucm_set_option in = {
		.optval = (uintptr_t)value,
		.id = id,
		.level = RDMA_OPTION_ID,
		.optname = (uint32_t)option,
		.optlen = (uint32_t)len,
	};

	return command(fd, RDMA_USER_CM_CMD_SET_OPTION, &in, sizeof(in), 0);
}

int ucm_join(int fd, uint32_t id, const struct sockaddr_storage *addr, uint16_t flags,
	     uint64_t userdata, uint32_t *ret_join)
{
	struct rdma_ucm_create_id_resp out = { 0 };
	struct rdma_ucm_join_mcast in = {
		.response = (uintptr_t)&out,
		.uid = userdata,
		.id = id,
		.addr_size = (uint16_t)addr_len((const struct sockaddr *)addr),
		.join_flags = flags,
	};
	int r;

	memcpy(&in.addr, addr, in.addr_size);
	r = command(fd, RDMA_USER_CM_CMD_JOIN_MCAST, &in, sizeof(in), sizeof(out));
	if (r == 0)
		*ret_join = out.id;
	return r;
}

int ucm_leave(int fd, uint32_t join)
{
	struct rdma_ucm_destroy_id_resp out;
	struct rdma_ucm_destroy_id in = { .response = (uintptr_t)&out, .id = join };

	return command(fd, RDMA_USER_CM_CMD_LEAVE_MCAST, &in, sizeof(in), sizeof(out));
}

int ucm_destroy(int fd, uint32_t id)
{
	struct rdma_ucm_destroy_id_resp out;
	struct rdma_ucm_destroy_id in = { .response = (uintptr_t)&out, .id = id };

	return command(fd, RDMA_USER_CM_CMD_DESTROY_ID, &in, sizeof(in), sizeof(out));
}
