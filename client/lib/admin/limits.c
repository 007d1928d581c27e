/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/admin.h"
#include "client/lib/admin/replies.h"
#include "client/lib/wire/message.h"

int rdmabroker_get_limits(struct rdmabroker *session, struct rdmabroker_limits **ret)
{
	REQUEST(request, m, GetLimits, GET_LIMITS, get_limits);
	const Rdmabroker__GetLimitsResult *in;
	struct rdmabroker_limits *limits;
	struct replies replies;
	int r = replies_get(&replies, session, "get_limits", &request,
			    RDMABROKER__REPLY__RESULT_GET_LIMITS, NULL);

	if (r < 0)
		return r;
	in = replies.list[0]->reply->get_limits;
	limits = replies_keep(&replies, sizeof(*limits) + in->n_limits * sizeof(*limits->list));
	if (!limits)
		return -ENOMEM;
	limits->list = (void *)(limits + 1);
	for (size_t i = 0; i < in->n_limits; i++)
		limits->list[limits->n++] = (struct rdmabroker_limit){
			.what = in->limits[i]->what,
			.key = in->limits[i]->key,
			.used = in->limits[i]->used,
			.limit = in->limits[i]->limit,
		};
	*ret = limits;
	return 0;
}
