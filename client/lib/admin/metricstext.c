/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/admin.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pages.h"
#include "client/lib/wire/sessionparts.h"

/* The metrics, which come in pages: the pages are put together here. */

int rdmabroker_get_metrics(struct rdmabroker *session, char **ret)
{
	REQUEST(request, m, GetMetrics, GET_METRICS, get_metrics);
	bool more, goes_on;
	size_t len = 0, room = 0;
	char *text = NULL;
	struct pages pages;
	int r;

	pages_init(&pages, &session->wire, "get_metrics");
	do {
		const Rdmabroker__GetMetricsResult *in;
		Rdmabroker__Frame *page;
		char *grown = text;
		size_t n;

		r = pages_get(&pages, &request, RDMABROKER__REPLY__RESULT_GET_METRICS, &page);
		if (r < 0)
			break;
		in = page->reply->get_metrics;
		n = strlen(in->text);
		if (len + n + 1 > room) {
			room = 2 * (len + n + 1);
			grown = realloc(text, room);
		}
		if (grown) {
			text = grown;
			memcpy(text + len, in->text, n + 1);
			len += n;
		} else {
			r = fail(ENOMEM, "get_metrics: out of memory");
		}
		more = in->more;
		goes_on = n > 0 &&
			  pages_is_further(in->next_section, in->next_index, m.section, m.index);
		m.section = in->next_section;
		m.index = in->next_index;
		frame_free(page);
		if (r == 0 && more && !goes_on)
			r = pages_fail(&pages);
	} while (r == 0 && more);
	if (r < 0) {
		free(text);
		return r;
	}
	*ret = text;
	return 0;
}
