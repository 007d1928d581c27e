/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

/*
 * librdmacm's calls about connections, by the library's: the parameters and the errors are translated here, and
 * nothing is decided.
 */

static uint8_t at_most(uint8_t wanted, uint8_t max)
{
	return wanted < max ? wanted : max;
}

/* Like librdmacm, checks against the device's limits for RDMA_PS_TCP only. The library and the broker check the rest. */
static bool is_valid(const struct id *id, const struct rdma_conn_param *param)
{
	if (id->public.ps != RDMA_PS_TCP)
		return true;
	if (!param)
		return id->public.qp != NULL;
	if (!id->device)
		return false;
	return (param->responder_resources == RDMA_MAX_RESP_RES ||
		param->responder_resources <= id->device->max_responder_resources) &&
	       (param->initiator_depth == RDMA_MAX_INIT_DEPTH ||
		param->initiator_depth <= id->device->max_initiator_depth);
}

static void fill_param(const struct id *id, const struct rdma_conn_param *param,
		       struct rdmabroker_conn_param *ret)
{
	*ret = (struct rdmabroker_conn_param){
		.size = sizeof(*ret),
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	if (param) {
		ret->responder_resources = param->responder_resources;
		ret->initiator_depth = param->initiator_depth;
		ret->flow_control = param->flow_control;
		ret->retry_count = param->retry_count;
		ret->rnr_retry_count = param->rnr_retry_count;
		ret->srq = param->srq;
		ret->qp_num = param->qp_num;
		ret->private_data = param->private_data;
		ret->private_data_len = param->private_data ? param->private_data_len : 0;
	}
	if (ret->responder_resources == RDMA_MAX_RESP_RES)
		ret->responder_resources =
			at_most(id->responder_resources, id->device->max_responder_resources);
	if (ret->initiator_depth == RDMA_MAX_INIT_DEPTH)
		ret->initiator_depth =
			at_most(id->initiator_depth, id->device->max_initiator_depth);
	if (id->public.qp) {
		ret->qp_num = id->public.qp->qp_num;
		ret->srq = id->public.qp->srq != NULL;
	}
}

/* Sets the local ECE options, if there are any (VENDOR_ID not 0). */
static int tell_ece(struct id *id, uint32_t vendor_id, uint32_t options)
{
	struct ibv_ece ece = { .vendor_id = vendor_id, .options = options };

	return vendor_id ? BROKER(rdmabroker_set_local_ece(id->handle, &ece)) : 0;
}

static int add_connect_data(const struct id *id, struct rdmabroker_conn_param *param, uint8_t *buf,
			    size_t size)
{
	size_t len = id->connect_len + param->private_data_len;

	if (id->connect_len == 0)
		return 0;
	if (len > size)
		return -EINVAL;
	memcpy(buf, id->connect_data, id->connect_len);
	if (param->private_data_len)
		memcpy(buf + id->connect_len, param->private_data, param->private_data_len);
	param->private_data = buf;
	param->private_data_len = (uint8_t)len;
	return 0;
}

static int connect_id(struct id *id, const struct rdma_conn_param *param)
{
	struct rdmabroker_conn_param p;
	uint8_t buf[UINT8_MAX];
	int r;

	fill_param(id, param, &p);
	r = add_connect_data(id, &p, buf, sizeof(buf));
	if (r == 0)
		r = tell_ece(id, id->local_ece.vendor_id, id->local_ece.options);
	if (r == 0)
		r = BROKER(rdmabroker_connect(id->handle, &p));
	return r;
}

int rdma_connect(struct rdma_cm_id *public, struct rdma_conn_param *conn_param)
{
	struct id *id = to_id(public);
	int r;

	FORWARD_ID(rdma_connect, public, conn_param);
	if (!is_valid(id, conn_param) || !id->device)
		return fail(EINVAL);
	r = connect_id(id, conn_param);
	if (r < 0)
		return report_result("rdma_connect", r);
	free(id->connect_data);
	id->connect_data = NULL;
	id->connect_len = 0;
	id->offers_qp = true;
	return event_await_outcome(id);
}

static int accept_id(struct id *id, const struct rdma_conn_param *param)
{
	struct rdmabroker_conn_param p;
	int r = 0;

	fill_param(id, param, &p);
	if (!id_is_datagram(id))
		r = qp_to_rts(id, p.responder_resources, p.initiator_depth);
	if (r < 0)
		return r;
	r = tell_ece(id, id->remote_ece.vendor_id, id->local_ece.options);
	if (r == 0)
		r = BROKER(rdmabroker_accept(id->handle, &p));
	/* With too much private data the kernel rejects the request; librdmabroker only returns -E2BIG. */
	if (r == -E2BIG)
		BROKER(rdmabroker_reject(id->handle, NULL, 0));
	if (r < 0)
		qp_to_error(id);
	return r;
}

int rdma_accept(struct rdma_cm_id *public, struct rdma_conn_param *conn_param)
{
	struct id *id = to_id(public);
	int r;

	FORWARD_ID(rdma_accept, public, conn_param);
	if (!is_valid(id, conn_param) || !id->device || (!public->qp && !conn_param))
		return fail(EINVAL);
	r = accept_id(id, conn_param);
	if (r < 0)
		return report_result("rdma_accept", r);
	id->offers_qp = true;
	if (!id_is_datagram(id))
		return event_await_outcome(id);
	/* Accepting a look-up has no outcome event. The request's one is over. */
	if (id->sync)
		id_ack_own_event(id);
	return 0;
}

int rdma_establish(struct rdma_cm_id *public)
{
	struct id *id = to_id(public);

	FORWARD_ID(rdma_establish, public);
	if (public->qp)
		return fail(EINVAL);
	return report_result("rdma_establish", BROKER(rdmabroker_establish(id->handle)));
}

int rdma_reject(struct rdma_cm_id *public, const void *private_data, uint8_t private_data_len)
{
	struct id *id = to_id(public);

	FORWARD_ID(rdma_reject, public, private_data, private_data_len);
	return report_result("rdma_reject",
			     BROKER(rdmabroker_reject(id->handle, private_data, private_data_len)));
}

int rdma_reject_ece(struct rdma_cm_id *public, const void *private_data, uint8_t private_data_len)
{
	struct id *id = to_id(public);

	FORWARD_ID(rdma_reject_ece, public, private_data, private_data_len);
	return report_result(
		"rdma_reject_ece",
		BROKER(rdmabroker_reject_ece(id->handle, private_data, private_data_len)));
}

int rdma_notify(struct rdma_cm_id *public, enum ibv_event_type event)
{
	struct id *id = to_id(public);

	FORWARD_ID(rdma_notify, public, event);
	return report_result("rdma_notify", BROKER(rdmabroker_notify(id->handle, event)));
}

/* Like librdmacm, moves the QP to ERR, but an iWARP QP to SQD, so that it finishes its send queue first. */
static int shut_down(struct id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };

	switch (id->public.verbs->device->transport_type) {
	case IBV_TRANSPORT_IB:
		return qp_to_error(id);
	case IBV_TRANSPORT_IWARP:
		return id->public.qp ? -ibv_modify_qp(id->public.qp, &attr, IBV_QP_STATE) : 0;
	default:
		return -EINVAL;
	}
}

int rdma_disconnect(struct rdma_cm_id *public)
{
	struct id *id = to_id(public);
	int r;

	FORWARD_ID(rdma_disconnect, public);
	if (!public->verbs)
		return fail(EINVAL);
	r = shut_down(id);
	if (r == 0)
		r = BROKER(rdmabroker_disconnect(id->handle));
	return r < 0 ? report_result("rdma_disconnect", r) : event_await_outcome(id);
}

/* ECE options for a QP that is not public->qp. For public->qp the device is queried. */

int rdma_set_local_ece(struct rdma_cm_id *public, struct ibv_ece *ece)
{
	FORWARD(rdma_set_local_ece, public, ece);
	if (!public || public->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return fail(EINVAL);
	to_id(public)->local_ece = *ece;
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *public, struct ibv_ece *ece)
{
	FORWARD(rdma_get_remote_ece, public, ece);
	if (!public || public->qp || !ece)
		return fail(EINVAL);
	*ece = to_id(public)->remote_ece;
	ece->comp_mask = 0;
	return 0;
}
