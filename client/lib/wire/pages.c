/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/lib/wire/calls.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/pages.h"
#include "client/lib/wire/wire.h"

/* The maximum size of an answer that comes in pages, in bytes: a hostile broker could send pages without end. */
#define PAGES_BYTES_MAX (256 << 20)

void pages_init(struct pages *pages, struct wire *wire, const char *name)
{
	*pages = (struct pages){
		.wire = wire,
		.name = name,
		.deadline = deadline_after((int64_t)ROUNDS_MAX * wire->call_timeout_ms),
	};
}

int pages_get(struct pages *pages, Rdmabroker__Request *request,
	      Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret)
{
	struct wire *wire = pages->wire;
	int64_t left = deadline_left(pages->deadline);
	int r;

	if (left <= 0)
		return fail(ETIMEDOUT, "%s: the broker's reply was not complete in time",
			    pages->name);
	r = call_wait_within(wire, pages->name, request, result,
			     left < wire->call_timeout_ms ? (int)left : wire->call_timeout_ms, ret);
	if (r < 0)
		return r;
	pages->n_bytes += frame_get_size(*ret);
	if (pages->n_bytes <= PAGES_BYTES_MAX)
		return 0;
	frame_free(*ret);
	return fail(EPROTO, "%s: the broker's reply is longer than %d MiB", pages->name,
		    PAGES_BYTES_MAX >> 20);
}

int pages_fail(const struct pages *pages)
{
	return fail(EPROTO, "%s: a page of the broker's reply is out of order", pages->name);
}

bool pages_is_further(uint64_t a, uint32_t b, uint64_t from_a, uint32_t from_b)
{
	return a > from_a || (a == from_a && b > from_b);
}

/* The array is full if N is 0 or a power of two, and is doubled then: N appends take time linear in N. */
int page_list_add(struct page_list *list, Rdmabroker__Frame *page, const char *name)
{
	Rdmabroker__Frame **pages = list->pages;

	if ((list->n & (list->n - 1)) == 0)
		pages = reallocarray(pages, list->n > 0 ? 2 * list->n : 1, sizeof(*pages));
	if (!pages) {
		frame_free(page);
		return fail(ENOMEM, "%s: out of memory", name);
	}
	list->pages = pages;
	pages[list->n++] = page;
	return 0;
}

void page_list_free(struct page_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		frame_free(list->pages[i]);
	free(list->pages);
}
