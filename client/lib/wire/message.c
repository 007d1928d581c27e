/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "proto/address.h"

int message_put_address(Rdmabroker__Address *ret, const struct sockaddr *addr)
{
	return address_pack(ret, addr) ?
		       0 :
		       fail(EINVAL, "the address is neither IPv4 nor IPv6 nor InfiniBand's");
}

Rdmabroker__Ece *message_put_ece(Rdmabroker__Ece *ret, const struct ibv_ece *ece)
{
	if (ece->vendor_id == 0)
		return NULL;
	rdmabroker__ece__init(ret);
	ret->vendor_id = ece->vendor_id;
	ret->options = ece->options;
	return ret;
}

void message_get_caps(struct caps *ret, const Rdmabroker__Caps *caps)
{
	*ret = (struct caps){ -1, -1 };
	if (caps)
		*ret = (struct caps){
			.responder_resources = caps->responder_resources,
			.initiator_depth = caps->initiator_depth,
		};
}

void message_get_ah_attr(struct ibv_ah_attr *ret, const Rdmabroker__AhAttr *ah)
{
	if (!ah)
		return;
	if (ah->dgid.len == sizeof(ret->grh.dgid.raw)) {
		ret->is_global = 1;
		memcpy(ret->grh.dgid.raw, ah->dgid.data, sizeof(ret->grh.dgid.raw));
		ret->grh.flow_label = ah->flow_label;
		ret->grh.sgid_index = (uint8_t)ah->sgid_index;
		ret->grh.hop_limit = (uint8_t)ah->hop_limit;
		ret->grh.traffic_class = (uint8_t)ah->traffic_class;
	}
	ret->dlid = (uint16_t)ah->dlid;
	ret->sl = (uint8_t)ah->sl;
	ret->src_path_bits = (uint8_t)ah->src_path_bits;
	ret->static_rate = (uint8_t)ah->static_rate;
	ret->port_num = (uint8_t)ah->port_num;
}

static void get_attr(struct ibv_qp_attr *ret, const Rdmabroker__QpAttr *attr)
{
	*ret = (struct ibv_qp_attr){
		.qp_state = attr->qp_state,
		.path_mtu = attr->path_mtu,
		.path_mig_state = attr->path_mig_state,
		.qkey = attr->qkey,
		.rq_psn = attr->rq_psn,
		.sq_psn = attr->sq_psn,
		.dest_qp_num = attr->dest_qp_num,
		.qp_access_flags = attr->qp_access_flags,
		.pkey_index = (uint16_t)attr->pkey_index,
		.max_rd_atomic = (uint8_t)attr->max_rd_atomic,
		.max_dest_rd_atomic = (uint8_t)attr->max_dest_rd_atomic,
		.min_rnr_timer = (uint8_t)attr->min_rnr_timer,
		.port_num = (uint8_t)attr->port_num,
		.timeout = (uint8_t)attr->timeout,
		.retry_cnt = (uint8_t)attr->retry_cnt,
		.rnr_retry = (uint8_t)attr->rnr_retry,
		.alt_pkey_index = (uint16_t)attr->alt_pkey_index,
		.alt_port_num = (uint8_t)attr->alt_port_num,
		.alt_timeout = (uint8_t)attr->alt_timeout,
	};
	message_get_ah_attr(&ret->ah_attr, attr->ah);
	message_get_ah_attr(&ret->alt_ah_attr, attr->alt_ah);
}

void message_get_qp_attr(struct qp_attr *ret, const Rdmabroker__QpAttr *attr)
{
	*ret = (struct qp_attr){ 0 };
	if (!attr)
		return;
	ret->mask = (int)attr->mask;
	get_attr(&ret->attr, attr);
}

static void set_attr(struct qp_attr *ret, const struct ibv_qp_attr *attr, enum ibv_qp_state state,
		     uint32_t mask)
{
	if (mask == 0)
		return;
	ret->mask = (int)mask;
	ret->attr = *attr;
	ret->attr.qp_state = state;
}

void message_get_qp_attrs(struct qp_attr *init, struct qp_attr *rtr, struct qp_attr *rts,
			  const Rdmabroker__QpAttr *attr)
{
	struct ibv_qp_attr all;

	if (!attr)
		return;
	get_attr(&all, attr);
	set_attr(init, &all, IBV_QPS_INIT, attr->mask);
	set_attr(rtr, &all, IBV_QPS_RTR, attr->rtr_mask);
	set_attr(rts, &all, IBV_QPS_RTS, attr->rts_mask);
}
