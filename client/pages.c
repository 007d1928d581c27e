/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/internal.h"

void pages_init(struct pages *pages, struct rdmabroker *session, const char *name)
{
	*pages = (struct pages){
		.name = name,
		.deadline = now_ms() + (int64_t)ROUNDS_MAX * session->wire.call_timeout_ms,
	};
}

int pages_get(struct pages *pages, struct rdmabroker *session, Rdmabroker__Request *request,
	      Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret)
{
	int64_t left = pages->deadline - now_ms();
	int r;

	if (left <= 0)
		return fail(ETIMEDOUT, "%s: the broker's answer has no end in time", pages->name);
	r = wire_call_within(&session->wire, pages->name, request, result,
			     left < session->wire.call_timeout_ms ? (int)left :
								    session->wire.call_timeout_ms,
			     ret);
	if (r < 0)
		return r;
	pages->n_bytes += frame_get_size(*ret);
	if (pages->n_bytes <= PAGES_BYTES_MAX)
		return 0;
	frame_free(*ret);
	return fail(EPROTO, "%s: the broker's answer takes more than %d MiB", pages->name,
		    PAGES_BYTES_MAX >> 20);
}

int pages_fail(const struct pages *pages)
{
	return fail(EPROTO, "%s: the broker's answer does not go on", pages->name);
}

/* The array is full if N is 0 or a power of two, and is doubled then: N appends take time linear in N. */
Rdmabroker__Frame **pages_keep(Rdmabroker__Frame **frames, size_t n, Rdmabroker__Frame *frame)
{
	if ((n & (n - 1)) == 0)
		frames = reallocarray(frames, n > 0 ? 2 * n : 1, sizeof(Rdmabroker__Frame *));
	if (frames)
		frames[n] = frame;
	else
		frame_free(frame);
	return frames;
}
