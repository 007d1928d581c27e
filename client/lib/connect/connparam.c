/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/lib/connect/connparam.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/qpstate.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
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

int connparam_fit_to_request(struct rdmabroker_id *id, struct rdmabroker_conn_param *param)
{
	int max_resources, max_depth, r;

	if (param->responder_resources != 0xff && param->initiator_depth != 0xff)
		return 0;
	r = qpstate_get_limits(id, &max_resources, &max_depth);
	if (r < 0)
		return r;
	if (param->responder_resources == 0xff)
		param->responder_resources =
			at_most(id->request_responder_resources, max_resources);
	if (param->initiator_depth == 0xff)
		param->initiator_depth = at_most(id->request_initiator_depth, max_depth);
	return 0;
}

/* Called before the QP is changed, so that a failure here leaves the QP as it was. */
static int check_limits(struct rdmabroker_id *id, const char *name,
			const struct rdmabroker_conn_param *param)
{
	int max_resources, max_depth, r;

	/* Look-ups do not have these parameters. If the library does not know the QP, the broker checks them. */
	if (!id->qp || idstate_is_datagram(id))
		return 0;
	r = qpstate_get_limits(id, &max_resources, &max_depth);
	if (r < 0)
		return r;
	if (param->responder_resources != 0xff && param->responder_resources > max_resources)
		return fail(EINVAL, "%s: %u responder resources exceed the device's limit of %d",
			    name, param->responder_resources, max_resources);
	if (param->initiator_depth != 0xff && param->initiator_depth > max_depth)
		return fail(EINVAL, "%s: initiator depth %u exceeds the device's limit of %d", name,
			    param->initiator_depth, max_depth);
	return 0;
}

static uint8_t capped(uint8_t wanted, int cap)
{
	return cap >= 0 && wanted > cap ? (uint8_t)cap : wanted;
}

/* The broker applies policy's caps too, but the library moves the QP, and needs the same values. */
static int apply_caps(struct rdmabroker_id *id, struct rdmabroker_conn_param *param)
{
	int max_resources = 0xff, max_depth = 0xff, r;
	bool all = param->responder_resources == 0xff || param->initiator_depth == 0xff;

	param->retry_count = capped(param->retry_count, id->caps.retry_count);
	param->rnr_retry_count = capped(param->rnr_retry_count, id->caps.rnr_retry_count);
	if (id->caps.responder_resources < 0 && id->caps.initiator_depth < 0)
		return 0;
	/* 0xff stands for the device's maximum, which can be lower than the cap. */
	if (all && id->qp && !idstate_is_datagram(id)) {
		r = qpstate_get_limits(id, &max_resources, &max_depth);
		if (r < 0)
			return r;
	}
	if (id->caps.responder_resources < max_resources)
		param->responder_resources =
			capped(param->responder_resources, id->caps.responder_resources);
	if (id->caps.initiator_depth < max_depth)
		param->initiator_depth = capped(param->initiator_depth, id->caps.initiator_depth);
	return 0;
}

int connparam_prepare(struct rdmabroker_id *id, const char *name,
		      const struct rdmabroker_conn_param *param, size_t max_data,
		      size_t max_lookup_data, struct rdmabroker_conn_param *ret)
{
	int r = wire_check_process(&id->session->wire);

	/* In a child process fail before the QP is changed, because the parent uses it. */
	if (r < 0)
		return r;
	if (idstate_is_datagram(id))
		max_data = max_lookup_data;
	if (!param && !id->qp && !idstate_is_datagram(id))
		return fail(EINVAL, "%s: param is NULL, but the id has no QP", name);
	*ret = (struct rdmabroker_conn_param)RDMABROKER_CONN_PARAM_INIT;
	if (param)
		r = SIZED_TAKE(ret, param, name, rdmabroker_conn_param, srq, srq);
	if (r < 0)
		return r;
	if (ret->private_data && ret->private_data_len > max_data)
		return fail(E2BIG, "%s: %zu bytes of private data exceed the limit of %zu", name,
			    ret->private_data_len, max_data);
	if (id->qp) {
		ret->qp_num = id->qp->qp_num;
		ret->srq = id->qp->srq != NULL;
	}
	/* At most 7, as in the kernel: the CM messages have three bits for each count. */
	ret->retry_count = at_most(ret->retry_count, 7);
	ret->rnr_retry_count = at_most(ret->rnr_retry_count, 7);
	r = apply_caps(id, ret);
	return r < 0 ? r : check_limits(id, name, ret);
}
