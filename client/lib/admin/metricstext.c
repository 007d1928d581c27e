/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/admin.h"
#include "client/lib/admin/replies.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"

/* The metrics, which come in pages: the pages are put together here. */

static int next(const Rdmabroker__Reply *reply, Rdmabroker__Request *request)
{
	const Rdmabroker__GetMetricsResult *in = reply->get_metrics;
	Rdmabroker__GetMetrics *m = request->get_metrics;
	bool goes_on = in->text[0] &&
		       replies_is_further(in->next_section, in->next_index, m->section, m->index);

	m->section = in->next_section;
	m->index = in->next_index;
	return !in->more ? 0 : goes_on ? 1 : -EPROTO;
}

int rdmabroker_get_metrics(struct rdmabroker *session, char **ret)
{
	REQUEST(request, m, GetMetrics, GET_METRICS, get_metrics);
	struct replies replies;
	char *text, *end;
	size_t len = 0;
	int r = replies_get(&replies, session, "get_metrics", &request,
			    RDMABROKER__REPLY__RESULT_GET_METRICS, next);

	if (r < 0)
		return r;
	for (size_t i = 0; i < replies.n; i++)
		len += strlen(replies.list[i]->reply->get_metrics->text);
	text = end = malloc(len + 1);
	if (text)
		for (size_t i = 0; i < replies.n; i++)
			end = stpcpy(end, replies.list[i]->reply->get_metrics->text);
	replies_free(&replies);
	if (!text)
		return fail(ENOMEM, "get_metrics: out of memory");
	*ret = text;
	return 0;
}
