/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/multicast.h"
#include "client/lib/id/opendevice.h"
#include "client/lib/id/qpstate.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/sessionparts.h"

static int fetch_attr(struct rdmabroker_id *id, enum ibv_qp_state state, struct qp_attr *ret)
{
	ID_REQUEST(request, m, InitQpAttr, INIT_QP_ATTR, init_qp_attr, id);
	Rdmabroker__Frame *frame;
	int r;

	m.qp_state = state;
	r = idcall_wait(id, "init_qp_attr", &request, id->session->wire.call_timeout_ms, &frame);
	if (r < 0)
		return r;
	message_get_qp_attr(ret, frame->reply->result_case == RDMABROKER__REPLY__RESULT_QP_ATTR ?
					 frame->reply->qp_attr :
					 NULL);
	frame_free(frame);
	return ret->mask ? 0 : fail(EPROTO, "init_qp_attr: the broker's reply has no attributes");
}

/* Saves a round trip if an event or a reply has brought the attributes. */
static int get_attr(struct rdmabroker_id *id, enum ibv_qp_state state, struct qp_attr *ret)
{
	const struct qp_attr *known = state == IBV_QPS_INIT ? &id->init :
				      state == IBV_QPS_RTR  ? &id->rtr :
				      state == IBV_QPS_RTS  ? &id->rts :
							      NULL;

	if (!known || !known->mask)
		return fetch_attr(id, state, ret);
	*ret = *known;
	return 0;
}

int rdmabroker_init_qp_attr(struct rdmabroker_id *id, struct ibv_qp_attr *attr, int *mask)
{
	struct qp_attr qp;
	int r = wire_check_process(&id->session->wire);

	if (r == 0)
		r = get_attr(id, attr->qp_state, &qp);
	if (r < 0)
		return r;
	*attr = qp.attr;
	*mask = qp.mask;
	return 0;
}

static int move(struct ibv_qp *qp, struct qp_attr *to, const char *state)
{
	int r = ibv_modify_qp(qp, &to->attr, to->mask);

	return r == 0 ? 0 : fail(r, "cannot move QP %u to %s: %s", qp->qp_num, state, strerror(r));
}

static bool is_same_init(const struct qp_attr *a, const struct qp_attr *b)
{
	return a->mask == b->mask && a->attr.port_num == b->attr.port_num &&
	       a->attr.pkey_index == b->attr.pkey_index && a->attr.qkey == b->attr.qkey &&
	       a->attr.qp_access_flags == b->attr.qp_access_flags;
}

/* Does nothing if the library created the QP, and the QP is in INIT with the same attributes already. */
static int to_init(struct rdmabroker_id *id, struct ibv_qp *qp)
{
	struct qp_attr init;
	bool is_own = qp == id->qp && id->own_qp;
	int r = get_attr(id, IBV_QPS_INIT, &init);

	if (r < 0)
		return r;
	/*
	 * On iWARP a port is not necessary. But the broker asks the kernel whose the QP is: with a port the kernel finds it by
	 * its number, without one it has to query all QPs of the device.
	 */
	if (init.attr.port_num > 0)
		init.mask |= IBV_QP_PORT;
	if (is_own && qp->state == IBV_QPS_INIT && is_same_init(&init, &id->in_init))
		return 0;
	r = move(qp, &init, "INIT");
	if (r == 0 && is_own)
		id->in_init = init;
	return r;
}

static uint8_t capped(int wanted, int cap)
{
	return (uint8_t)(cap >= 0 && wanted > cap ? cap : wanted);
}

/*
 * Moves the QP to INIT again first, because only now its access flags are known. The broker applies the rule's caps to
 * what the peer is told, so they apply to the QP too.
 */
int qpstate_to_rts(struct rdmabroker_id *id, struct ibv_qp *qp, int responder_resources,
		   int initiator_depth)
{
	struct qp_attr rtr, rts;
	int r;

	r = to_init(id, qp);
	if (r == 0)
		r = get_attr(id, IBV_QPS_RTR, &rtr);
	if (r == 0)
		r = get_attr(id, IBV_QPS_RTS, &rts);
	if (r < 0)
		return r;
	if (responder_resources >= 0)
		rtr.attr.max_dest_rd_atomic =
			capped(responder_resources, id->caps.responder_resources);
	if (initiator_depth >= 0)
		rts.attr.max_rd_atomic = capped(initiator_depth, id->caps.initiator_depth);
	r = move(qp, &rtr, "RTR");
	return r < 0 ? r : move(qp, &rts, "RTS");
}

void qpstate_to_error(struct rdmabroker_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (id->qp)
		ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
}

int qpstate_get_limits(const struct rdmabroker_id *id, int *ret_responder_resources,
		       int *ret_initiator_depth)
{
	struct device *device = id->device;
	struct ibv_device_attr attr;
	int r;

	if (device && device->max_responder_resources >= 0) {
		*ret_responder_resources = device->max_responder_resources;
		*ret_initiator_depth = device->max_initiator_depth;
		return 0;
	}
	r = ibv_query_device(id->qp->context, &attr);
	if (r != 0)
		return fail(r, "cannot query the device of QP %u: %s", id->qp->qp_num, strerror(r));
	*ret_responder_resources = attr.max_qp_rd_atom;
	*ret_initiator_depth = attr.max_qp_init_rd_atom;
	if (device) {
		device->max_initiator_depth = attr.max_qp_init_rd_atom;
		device->max_responder_resources = attr.max_qp_rd_atom;
	}
	return 0;
}

/* EOPNOTSUPP: the device or libibverbs does not support ECE, so the QP has no ECE options. */
int qpstate_set_ece(struct rdmabroker_id *id, const struct ibv_ece *ece)
{
	struct ibv_ece copy = *ece;
	int r = ibv_set_ece(id->qp, &copy);

	return r == 0 || r == EOPNOTSUPP ? 0 :
					   fail(r, "cannot set the ECE options of QP %u: %s",
						id->qp->qp_num, strerror(r));
}

int qpstate_query_ece(struct rdmabroker_id *id, struct ibv_ece *ret)
{
	struct ibv_ece ece = { 0 };
	int r = ibv_query_ece(id->qp, &ece);

	if (r != 0 && r != EOPNOTSUPP)
		return fail(r, "cannot query the ECE options of QP %u: %s", id->qp->qp_num,
			    strerror(r));
	*ret = r == 0 ? ece : (struct ibv_ece){ 0 };
	return 0;
}

/* A datagram QP has no peer, and is moved to RTS at once; another QP only to INIT. */
static int make_ready(struct rdmabroker_id *id, struct ibv_qp *qp)
{
	struct qp_attr rtr = { .attr.qp_state = IBV_QPS_RTR, .mask = IBV_QP_STATE };
	struct qp_attr rts = { .attr.qp_state = IBV_QPS_RTS, .mask = IBV_QP_STATE | IBV_QP_SQ_PSN };
	int r = to_init(id, qp);

	if (r < 0 || qp->qp_type != IBV_QPT_UD)
		return r;
	r = move(qp, &rtr, "RTR");
	return r < 0 ? r : move(qp, &rts, "RTS");
}

int rdmabroker_move_qp(struct rdmabroker_id *id, struct ibv_qp *qp, enum ibv_qp_state state,
		       int responder_resources, int initiator_depth)
{
	int r = wire_check_process(&id->session->wire);

	if (r < 0)
		return r;
	switch (state) {
	case IBV_QPS_INIT:
		return make_ready(id, qp);
	case IBV_QPS_RTS:
		return qpstate_to_rts(id, qp, responder_resources, initiator_depth);
	default:
		return fail(EINVAL, "move_qp: the state is neither INIT nor RTS");
	}
}

int rdmabroker_create_qp(struct rdmabroker_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_context *context;
	int r = wire_check_process(&id->session->wire);

	if (r < 0)
		return r;
	if (id->qp)
		return fail(EINVAL, "create_qp: the id has a QP already");
	r = rdmabroker_get_verbs(id, &context);
	if (r == 0 && !pd)
		r = rdmabroker_get_pd(id, &pd);
	if (r < 0)
		return r;
	if (pd->context != context)
		return fail(EINVAL, "create_qp: the PD is not on %s, the device of the id",
			    id->device_name);
	id->qp = ibv_create_qp(pd, attr);
	if (!id->qp)
		return fail(errno, "create_qp: %s", strerror(errno));
	id->own_qp = true;
	r = make_ready(id, id->qp);
	if (r < 0)
		rdmabroker_destroy_qp(id);
	return r;
}

int rdmabroker_set_qp(struct rdmabroker_id *id, struct ibv_qp *qp)
{
	int r = wire_check_process(&id->session->wire);

	if (r < 0)
		return r;
	if (id->qp)
		return fail(EINVAL, "set_qp: the id has a QP already");
	if (!id->device_name[0])
		return fail(ENODEV, "set_qp: the id is not bound to a device");
	if (strcmp(ibv_get_device_name(qp->context->device), id->device_name) != 0)
		return fail(EINVAL, "set_qp: the QP is not on %s, the device of the id",
			    id->device_name);
	id->qp = qp;
	r = make_ready(id, qp);
	if (r < 0)
		id->qp = NULL;
	return r;
}

void rdmabroker_destroy_qp(struct rdmabroker_id *id)
{
	/* In a child process the QP belongs to the parent. */
	if (wire_is_in_child(&id->session->wire))
		return;
	/* A QP that is attached to a group cannot be destroyed. */
	multicast_detach_all(id);
	if (id->qp && id->own_qp)
		ibv_destroy_qp(id->qp);
	id->qp = NULL;
	id->own_qp = false;
	id->in_init.mask = 0;
}

struct ibv_qp *rdmabroker_get_qp(const struct rdmabroker_id *id)
{
	return id->qp;
}
