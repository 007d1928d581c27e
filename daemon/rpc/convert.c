/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "rpc/convert.h"

const char *in_address(struct sockaddr_storage *ret, const Rdmabroker__Address *address)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

	if (!address)
		return "the address is missing";
	if (address->port > 65535)
		return "the port is not 0..65535";
	memset(ret, 0, sizeof(*ret));
	switch (address->addr.len) {
	case 4:
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)address->port);
		memcpy(&in->sin_addr, address->addr.data, 4);
		return NULL;
	case 16:
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)address->port);
		in6->sin6_scope_id = address->scope_id;
		in6->sin6_flowinfo = address->flowinfo;
		memcpy(&in6->sin6_addr, address->addr.data, 16);
		return NULL;
	default:
		return "the address is neither IPv4 (4 bytes) nor IPv6 (16 bytes)";
	}
}

const char *in_conn_param(struct rdma_conn_param *ret, const Rdmabroker__ConnParam *param,
			  size_t max_private_data)
{
	if (!param)
		return "the parameters are missing";
	if (param->private_data.len > max_private_data)
		return "too much private data";
	if (param->responder_resources > 255 || param->initiator_depth > 255)
		return "responder resources or initiator depth are not 0..255";
	if (param->retry_count > 7 || param->rnr_retry_count > 7)
		return "a retry count is not 0..7";
	if (param->flow_control > 1 || param->srq > 1)
		return "flow control or SRQ are not 0 or 1";
	if (param->qp_num > 0xffffff)
		return "the QP number has more than 24 bits";
	*ret = (struct rdma_conn_param){
		.private_data = param->private_data.len ? param->private_data.data : NULL,
		.private_data_len = (uint8_t)param->private_data.len,
		.responder_resources = (uint8_t)param->responder_resources,
		.initiator_depth = (uint8_t)param->initiator_depth,
		.flow_control = (uint8_t)param->flow_control,
		.retry_count = (uint8_t)param->retry_count,
		.rnr_retry_count = (uint8_t)param->rnr_retry_count,
		.srq = (uint8_t)param->srq,
		.qp_num = param->qp_num,
	};
	return NULL;
}

static Rdmabroker__Address *out_address(Rdmabroker__Address *ret, const struct sockaddr_storage *ss)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)ss;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;

	rdmabroker__address__init(ret);
	switch (ss->ss_family) {
	case AF_INET:
		ret->addr.len = 4;
		ret->addr.data = (uint8_t *)&in->sin_addr;
		ret->port = ntohs(in->sin_port);
		return ret;
	case AF_INET6:
		ret->addr.len = 16;
		ret->addr.data = (uint8_t *)&in6->sin6_addr;
		ret->port = ntohs(in6->sin6_port);
		ret->scope_id = in6->sin6_scope_id;
		ret->flowinfo = in6->sin6_flowinfo;
		return ret;
	default:
		return NULL;
	}
}

void out_id_info(struct out_id_info *space, const struct id *id)
{
	struct fabric_id_info *from = &space->from;

	fabric_id_get_info(id->fabric, from);
	rdmabroker__id_info__init(&space->info);
	space->info.local = out_address(&space->local, &from->local);
	space->info.peer = out_address(&space->peer, &from->peer);
	if (from->device)
		space->info.device = (char *)from->device;
	space->info.port_num = from->port_num;
}

static Rdmabroker__AhAttr *out_ah_attr(Rdmabroker__AhAttr *ret, const struct ibv_ah_attr *ah)
{
	rdmabroker__ah_attr__init(ret);
	if (ah->is_global) {
		ret->dgid.len = sizeof(ah->grh.dgid.raw);
		ret->dgid.data = (uint8_t *)ah->grh.dgid.raw;
		ret->flow_label = ah->grh.flow_label;
		ret->sgid_index = ah->grh.sgid_index;
		ret->hop_limit = ah->grh.hop_limit;
		ret->traffic_class = ah->grh.traffic_class;
	}
	ret->dlid = ah->dlid;
	ret->sl = ah->sl;
	ret->src_path_bits = ah->src_path_bits;
	ret->static_rate = ah->static_rate;
	ret->port_num = ah->port_num;
	return ret;
}

void out_qp_attr(struct out_qp_attr *space, const struct qp_attr *qp)
{
	const struct ibv_qp_attr *attr = &qp->attr;
	Rdmabroker__QpAttr *ret = &space->attr;

	rdmabroker__qp_attr__init(ret);
	ret->mask = (uint32_t)qp->mask;
	ret->qp_state = attr->qp_state;
	ret->path_mtu = attr->path_mtu;
	ret->qkey = attr->qkey;
	ret->rq_psn = attr->rq_psn;
	ret->sq_psn = attr->sq_psn;
	ret->dest_qp_num = attr->dest_qp_num;
	ret->qp_access_flags = attr->qp_access_flags;
	ret->pkey_index = attr->pkey_index;
	ret->max_rd_atomic = attr->max_rd_atomic;
	ret->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	ret->min_rnr_timer = attr->min_rnr_timer;
	ret->port_num = attr->port_num;
	ret->timeout = attr->timeout;
	ret->retry_cnt = attr->retry_cnt;
	ret->rnr_retry = attr->rnr_retry;
	ret->path_mig_state = attr->path_mig_state;
	if (qp->mask & IBV_QP_AV)
		ret->ah = out_ah_attr(&space->ah, &attr->ah_attr);
	if (qp->mask & IBV_QP_ALT_PATH) {
		ret->alt_ah = out_ah_attr(&space->alt_ah, &attr->alt_ah_attr);
		ret->alt_pkey_index = attr->alt_pkey_index;
		ret->alt_port_num = attr->alt_port_num;
		ret->alt_timeout = attr->alt_timeout;
	}
}

void out_conn_param(Rdmabroker__ConnParam *ret, const struct rdma_conn_param *param)
{
	rdmabroker__conn_param__init(ret);
	ret->private_data.len = param->private_data_len;
	ret->private_data.data = (uint8_t *)param->private_data;
	ret->responder_resources = param->responder_resources;
	ret->initiator_depth = param->initiator_depth;
	ret->flow_control = param->flow_control;
	ret->retry_count = param->retry_count;
	ret->rnr_retry_count = param->rnr_retry_count;
	ret->srq = param->srq;
	ret->qp_num = param->qp_num;
}

void out_failure(Rdmabroker__Failure *ret, const struct failure *failure)
{
	rdmabroker__failure__init(ret);
	ret->status = failure->status;
	ret->error = failure->error;
	ret->text = (char *)failure->text;
	ret->rule = (char *)failure->rule;
}
