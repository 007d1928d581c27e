/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/admin.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"

/* The limits of the session's user. PUBLIC points into FRAME, the reply, which is freed together with it. */
struct limits {
	struct rdmabroker_limits public;
	Rdmabroker__Frame *frame;
	struct rdmabroker_limit **list;
};

static struct limits *limits_new(Rdmabroker__Frame *frame)
{
	const Rdmabroker__GetLimitsResult *in = frame->reply->get_limits;
	struct limits *limits = calloc(1, sizeof(*limits));

	if (limits)
		limits->list = sized_new_array(in->n_limits, sizeof(**limits->list));
	if (!limits || !limits->list) {
		free(limits);
		return NULL;
	}
	for (size_t i = 0; i < in->n_limits; i++)
		*limits->list[i] = (struct rdmabroker_limit){
			.size = sizeof(*limits->list[i]),
			.what = in->limits[i]->what,
			.key = in->limits[i]->key,
			.used = in->limits[i]->used,
			.limit = in->limits[i]->limit,
		};
	limits->frame = frame;
	limits->public = (struct rdmabroker_limits){
		.size = sizeof(limits->public),
		.n_limits = in->n_limits,
		.limits = (const struct rdmabroker_limit *const *)limits->list,
	};
	return limits;
}

int rdmabroker_get_limits(struct rdmabroker *session, struct rdmabroker_limits **ret)
{
	REQUEST(request, m, GetLimits, GET_LIMITS, get_limits);
	Rdmabroker__Frame *frame;
	struct limits *limits;
	int r = call_wait_for(&session->wire, "get_limits", &request,
			      RDMABROKER__REPLY__RESULT_GET_LIMITS, &frame);

	if (r < 0)
		return r;
	limits = limits_new(frame);
	if (!limits) {
		frame_free(frame);
		return fail(ENOMEM, "get_limits: out of memory");
	}
	*ret = &limits->public;
	return 0;
}

struct rdmabroker_limits *rdmabroker_free_limits(struct rdmabroker_limits *public)
{
	struct limits *limits = (struct limits *)public;

	if (limits) {
		frame_free(limits->frame);
		free(limits->list);
		free(limits);
	}
	return NULL;
}
