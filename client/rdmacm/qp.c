/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "rdmacm.h"

/*
 * librdmacm's calls that make a queue pair and change its state. The library moves the queue pair through its states, but
 * does not know it otherwise: the program can replace or clear public->qp at any time.
 */

int rdma_init_qp_attr(struct rdma_cm_id *public, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	struct id *id = to_id(public);

	FORWARD_ID(rdma_init_qp_attr, public, qp_attr, qp_attr_mask);
	return report_result("rdma_init_qp_attr",
			     BROKER(rdmabroker_init_qp_attr(id->handle, qp_attr, qp_attr_mask)));
}

int qp_to_rts(struct id *id, int responder_resources, int initiator_depth)
{
	return id->public.qp ? BROKER(rdmabroker_move_qp(id->handle, id->public.qp, IBV_QPS_RTS,
							 responder_resources, initiator_depth)) :
			       0;
}

int qp_to_error(struct id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return id->public.qp ? -ibv_modify_qp(id->public.qp, &attr, IBV_QP_STATE) : 0;
}

/* ECE options (enhanced connection establishment). EOPNOTSUPP: the device or libibverbs does not support them. */

static int get_ece(struct ibv_qp *qp, struct ibv_ece *ret)
{
	int r;

	memset(ret, 0, sizeof(*ret));
	r = ibv_query_ece(qp, ret);
	return r == EOPNOTSUPP ? 0 : -r;
}

/*
 * Stores the QP's ECE options. If the connection request has ECE options, sets the QP's options to the peer's, or to
 * 0 if the peer's device is of another vendor.
 */
static int init_ece(struct id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece;
	int r = get_ece(qp, &ece);

	if (r < 0)
		return r;
	id->local_ece = ece;
	if (!id->remote_ece.vendor_id)
		return 0;
	ece.options = id->remote_ece.vendor_id == ece.vendor_id ? id->remote_ece.options : 0;
	r = ibv_set_ece(qp, &ece);
	return r == EOPNOTSUPP ? 0 : -r;
}

static int learn_ece_options(struct id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece;
	int r = get_ece(qp, &ece);

	if (r == 0)
		id->local_ece.options = ece.options;
	return r;
}

/*
 * Sets the QP's ECE options to those in the peer's answer; vendor id 0: to 0. Fails if the answer's vendor id is
 * neither this device's nor 0.
 */
static int agree_on_ece(struct id *id, const struct ibv_ece *ece)
{
	struct ibv_ece agreed = { .vendor_id = id->local_ece.vendor_id };
	int r;

	if (ece->vendor_id && ece->vendor_id != id->local_ece.vendor_id)
		return -EINVAL;
	if (ece->vendor_id)
		agreed.options = ece->options;
	id->remote_ece.vendor_id = ece->vendor_id;
	r = ibv_set_ece(id->public.qp, &agreed);
	return r == EOPNOTSUPP ? 0 : -r;
}

static int confirm(struct id *id, const struct ibv_ece *ece)
{
	int r = agree_on_ece(id, ece);

	if (r == 0)
		r = qp_to_rts(id, -1, -1);
	if (r == 0)
		r = BROKER(rdmabroker_establish(id->handle));
	return r < 0 ? r : learn_ece_options(id, id->public.qp);
}

int qp_on_response(struct id *id, const struct ibv_ece *ece)
{
	int r = confirm(id, ece);

	if (r < 0)
		qp_to_error(id);
	return r;
}

/* CQs that the drop-in creates if the program has none. */

static void destroy_cqs(struct rdma_cm_id *id)
{
	/* These CQs belong to the SRQ, and are destroyed with it. */
	if (id->qp_type == IBV_QPT_XRC_RECV && id->srq)
		return;
	if (id->send_cq && id->send_cq != id->recv_cq)
		ibv_destroy_cq(id->send_cq);
	if (id->recv_cq)
		ibv_destroy_cq(id->recv_cq);
	if (id->send_cq_channel && id->send_cq_channel != id->recv_cq_channel)
		ibv_destroy_comp_channel(id->send_cq_channel);
	if (id->recv_cq_channel)
		ibv_destroy_comp_channel(id->recv_cq_channel);
	id->send_cq = id->recv_cq = NULL;
	id->send_cq_channel = id->recv_cq_channel = NULL;
}

static int create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_comp_channel **ret_channel,
		     struct ibv_cq **ret)
{
	if (size == 0)
		return 0;
	*ret_channel = ibv_create_comp_channel(id->verbs);
	if (!*ret_channel)
		return -1;
	*ret = ibv_create_cq(id->verbs, (int)size, id, *ret_channel, 0);
	return *ret ? 0 : -1;
}

static int create_cqs(struct rdma_cm_id *id, uint32_t send_size, uint32_t recv_size)
{
	int error;

	if (create_cq(id, recv_size, &id->recv_cq_channel, &id->recv_cq) == 0 &&
	    create_cq(id, send_size, &id->send_cq_channel, &id->send_cq) == 0)
		return 0;
	error = errno;
	destroy_cqs(id);
	return fail(error);
}

static int complete_xrc_srq(struct id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
		attr->xrcd = id->device ? device_get_xrcd(id->device) : NULL;
		if (!attr->xrcd)
			return -1;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		if (create_cqs(&id->public, 0, attr->attr.max_wr) < 0)
			return -1;
		attr->cq = id->public.recv_cq;
	}
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return 0;
}

int rdma_create_srq_ex(struct rdma_cm_id *public, struct ibv_srq_init_attr_ex *attr)
{
	struct id *id = to_id(public);
	struct ibv_srq *srq;
	int error;

	FORWARD(rdma_create_srq_ex, public, attr);
	if (!public->verbs || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return fail(EINVAL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = public->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->srq_type == IBV_SRQT_XRC && complete_xrc_srq(id, attr) < 0)
		return -1;
	srq = ibv_create_srq_ex(public->verbs, attr);
	if (!srq) {
		error = errno;
		destroy_cqs(public);
		return fail(error);
	}
	if (!public->pd)
		id->public.pd = attr->pd;
	public->srq = srq;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *public, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = public->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = pd,
	};
	int r;

	FORWARD(rdma_create_srq, public, pd, attr);
	r = rdma_create_srq_ex(public, &ex);
	attr->attr = ex.attr;
	return r;
}

void rdma_destroy_srq(struct rdma_cm_id *public)
{
	FORWARD(rdma_destroy_srq, public);
	ibv_destroy_srq(public->srq);
	public->srq = NULL;
	destroy_cqs(public);
}

static int create_qp(struct id *id, struct ibv_qp_init_attr_ex *attr, struct ibv_qp **ret)
{
	struct ibv_qp *qp = ibv_create_qp_ex(id->public.verbs, attr);
	int r;

	if (!qp)
		return -errno;
	r = init_ece(id, qp);
	if (r == 0)
		r = BROKER(rdmabroker_move_qp(id->handle, qp, IBV_QPS_INIT, -1, -1));
	if (r == 0 && id->remote_ece.vendor_id)
		r = learn_ece_options(id, qp);
	if (r < 0)
		ibv_destroy_qp(qp);
	else
		*ret = qp;
	return r;
}

/* False: the id has a QP or no device, or ATTR has other CQs than the id has already. */
static bool is_consistent(const struct rdma_cm_id *id, const struct ibv_qp_init_attr_ex *attr)
{
	if (id->qp || !id->verbs)
		return false;
	if (id->recv_cq && attr->recv_cq && id->recv_cq != attr->recv_cq)
		return false;
	return !(id->send_cq && attr->send_cq && id->send_cq != attr->send_cq);
}

static int complete_qp_attr(struct id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct rdma_cm_id *public = &id->public;

	if (public->qp_type == IBV_QPT_XRC_RECV &&
	    (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)) {
		attr->xrcd = device_get_xrcd(id->device);
		if (!attr->xrcd)
			return -1;
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	}
	if (create_cqs(public, attr->send_cq || public->send_cq ? 0 : attr->cap.max_send_wr,
		       attr->recv_cq || public->recv_cq ? 0 : attr->cap.max_recv_wr) < 0)
		return -1;
	if (!attr->send_cq)
		attr->send_cq = public->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = public->recv_cq;
	if (!attr->srq)
		attr->srq = public->srq;
	return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *attr)
{
	struct id *id = to_id(public);
	struct ibv_qp *qp = NULL;
	int r;

	FORWARD_ID(rdma_create_qp_ex, public, attr);
	if (!is_consistent(public, attr))
		return fail(EINVAL);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = public->pd;
	} else if (attr->pd->context != public->verbs) {
		return fail(EINVAL);
	}
	if (complete_qp_attr(id, attr) < 0)
		return -1;
	r = create_qp(id, attr, &qp);
	if (r < 0) {
		destroy_cqs(public);
		return report_result("rdma_create_qp", r);
	}
	public->pd = qp->pd;
	public->qp = qp;
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *public, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd ? pd : public->pd,
	};
	int r;

	FORWARD(rdma_create_qp, public, pd, attr);
	r = rdma_create_qp_ex(public, &ex);
	attr->send_cq = ex.send_cq;
	attr->recv_cq = ex.recv_cq;
	attr->srq = ex.srq;
	attr->cap = ex.cap;
	return r;
}

/*
 * rdma_connect() and rdma_accept() do not wait for the broker, which looks for the QP, and would not find it any more. A
 * reply implies that all earlier requests were processed.
 */
static void await_broker(struct id *id)
{
	int ignored;

	if (id->handle && id->offers_qp)
		BROKER(rdmabroker_get_option(id->handle, RDMABROKER_OPTION_TOS, &ignored));
	id->offers_qp = false;
}

/* Locks the channel, because a thread that takes an event can be moving the QP. */
void rdma_destroy_qp(struct rdma_cm_id *public)
{
	struct channel *channel;

	FORWARD(rdma_destroy_qp, public);
	channel = public->channel ? to_channel(public->channel) : NULL;
	if (channel)
		pthread_mutex_lock(&channel->lock);
	await_broker(to_id(public));
	ibv_destroy_qp(public->qp);
	public->qp = NULL;
	if (channel)
		pthread_mutex_unlock(&channel->lock);
	destroy_cqs(public);
}
