/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/lib/connect/connparam.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/qpstate.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"
#include "proto/private_data.h"

_Static_assert(RDMABROKER_CONNECT_DATA_MAX == PRIVATE_DATA_CONNECT, "connect");
_Static_assert(RDMABROKER_ACCEPT_DATA_MAX == PRIVATE_DATA_ACCEPT, "accept");
_Static_assert(RDMABROKER_REJECT_DATA_MAX == PRIVATE_DATA_REJECT, "reject");
_Static_assert(RDMABROKER_LOOKUP_DATA_MAX == PRIVATE_DATA_LOOKUP, "look-up");
_Static_assert(RDMABROKER_LOOKUP_ANSWER_DATA_MAX == PRIVATE_DATA_LOOKUP_ANSWER, "answer");

static uint8_t at_most(int wanted, int max)
{
	return (uint8_t)(wanted < max ? wanted : max);
}

/* FIELD of the device's maximum MAX: 0xff stands for what the peer has requested, and on the active side for MAX. */
static int fit(uint8_t *param, uint8_t requested, int max, const char *name, const char *field)
{
	if (*param == 0xff)
		*param = at_most(requested, max);
	return *param <= max ? 0 :
			       fail(EINVAL, "%s: %s %u exceeds the device's limit of %d", name,
				    field, *param, max);
}

/* Called before the QP is changed, so that a failure here leaves the QP as it was. */
static int fit_to_device(const struct rdmabroker_id *id, const char *name,
			 struct rdmabroker_conn_param *param)
{
	int max_resources, max_depth, r;

	/* Look-ups do not have these parameters. If the library does not know the QP, the broker checks them. */
	if (!id->qp || idstate_is_datagram(id))
		return 0;
	r = qpstate_get_limits(id, &max_resources, &max_depth);
	if (r == 0)
		r = fit(&param->responder_resources, id->request_responder_resources, max_resources,
			name, "responder_resources");
	if (r == 0)
		r = fit(&param->initiator_depth, id->request_initiator_depth, max_depth, name,
			"initiator_depth");
	return r;
}

static void pack(Rdmabroker__ConnParam *ret, const struct rdmabroker_conn_param *param)
{
	rdmabroker__conn_param__init(ret);
	ret->private_data.len = param->private_data ? param->private_data_len : 0;
	ret->private_data.data = (uint8_t *)param->private_data;
	ret->responder_resources = param->responder_resources;
	ret->initiator_depth = param->initiator_depth;
	ret->flow_control = param->flow_control;
	ret->retry_count = param->retry_count;
	ret->rnr_retry_count = param->rnr_retry_count;
	ret->srq = param->srq;
	ret->qp_num = param->qp_num;
}

int connparam_prepare(struct rdmabroker_id *id, const char *name,
		      const struct rdmabroker_conn_param *param, size_t max_data,
		      size_t max_lookup_data, Rdmabroker__ConnParam *ret)
{
	struct rdmabroker_conn_param p = RDMABROKER_CONN_PARAM_INIT;
	int r = wire_check_process(&id->session->wire);

	/* In a child process fail before the QP is changed, because the parent uses it. */
	if (r < 0)
		return r;
	if (idstate_is_datagram(id))
		max_data = max_lookup_data;
	if (!param && !id->qp && !idstate_is_datagram(id))
		return fail(EINVAL, "%s: param is NULL, but the id has no QP", name);
	if (param)
		r = SIZED_TAKE(&p, param, name, rdmabroker_conn_param, srq, srq);
	if (r < 0)
		return r;
	if (p.private_data && p.private_data_len > max_data)
		return fail(E2BIG, "%s: %zu bytes of private data exceed the limit of %zu", name,
			    p.private_data_len, max_data);
	if (id->qp) {
		p.qp_num = id->qp->qp_num;
		p.srq = id->qp->srq != NULL;
	}
	/* At most 7, as in the kernel: the CM messages have three bits for each count. */
	p.retry_count = at_most(p.retry_count, 7);
	p.rnr_retry_count = at_most(p.rnr_retry_count, 7);
	r = fit_to_device(id, name, &p);
	if (r == 0)
		pack(ret, &p);
	return r;
}
