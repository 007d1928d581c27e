/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/admin.h"
#include "client/lib/admin/replies.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"

/* The maximum size of an answer that comes in pages, in bytes: a hostile broker could send pages without end. */
#define BYTES_MAX (256 << 20)

/* A struct of client/admin.h is behind it. */
struct result {
	_Alignas(max_align_t) struct replies replies;
};

/* The array is full if N is 0 or a power of two, and is doubled then: N appends take time linear in N. */
int replies_add(struct replies *replies, Rdmabroker__Frame *frame)
{
	Rdmabroker__Frame **list = replies->list;
	size_t n = replies->n;

	if ((n & (n - 1)) == 0)
		list = reallocarray(list, n > 0 ? 2 * n : 1, sizeof(*list));
	if (!list) {
		frame_free(frame);
		return fail(ENOMEM, "%s: out of memory", replies->call);
	}
	replies->list = list;
	list[replies->n++] = frame;
	return 0;
}

void replies_free(struct replies *replies)
{
	for (size_t i = 0; i < replies->n; i++)
		frame_free(replies->list[i]);
	free(replies->list);
}

bool replies_is_further(uint64_t a, uint32_t b, uint64_t from_a, uint32_t from_b)
{
	return a > from_a || (a == from_a && b > from_b);
}

int replies_get(struct replies *ret, struct rdmabroker *session, const char *call,
		Rdmabroker__Request *request, Rdmabroker__Reply__ResultCase result,
		replies_next *next)
{
	struct wire *wire = &session->wire;
	int64_t deadline = deadline_after((int64_t)ROUNDS_MAX * wire->call_timeout_ms), left;
	struct replies replies = { .call = call };
	size_t n_bytes = 0;
	int r;

	do {
		struct call like = { .name = call, .result = result };
		Rdmabroker__Frame *frame;

		left = deadline_left(deadline);
		if (left > wire->call_timeout_ms)
			left = wire->call_timeout_ms;
		r = left > 0 ? call_wait_like(wire, &like, request, (int)left, &frame) :
			       fail(ETIMEDOUT, "%s: the broker's reply was not complete in time",
				    call);
		if (r < 0)
			break;
		n_bytes += frame_get_size(frame);
		r = replies_add(&replies, frame);
		if (r == 0 && n_bytes > BYTES_MAX)
			r = fail(EPROTO, "%s: the broker's reply is longer than %d MiB", call,
				 BYTES_MAX >> 20);
		else if (r == 0 && next && (r = next(frame->reply, request)) < 0)
			fail(EPROTO, "%s: a page of the broker's reply is out of order", call);
	} while (r > 0);
	if (r < 0)
		replies_free(&replies);
	else
		*ret = replies;
	return r;
}

void *replies_keep(struct replies *replies, size_t size)
{
	struct result *result = calloc(1, sizeof(*result) + size);

	if (!result) {
		replies_free(replies);
		fail(ENOMEM, "%s: out of memory", replies->call);
		return NULL;
	}
	result->replies = *replies;
	return result + 1;
}

void rdmabroker_free(void *public)
{
	struct result *result = public ? (struct result *)public - 1 : NULL;

	if (result)
		replies_free(&result->replies);
	free(result);
}
