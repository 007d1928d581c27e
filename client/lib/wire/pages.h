/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* An answer that comes in pages, one for each request. The pages have a common deadline and size limit. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/rdmabroker.pb-c.h"

struct wire;

struct pages {
	struct wire *wire;
	const char *name; /* of the call */
	int64_t deadline;
	size_t n_bytes; /* size of the pages received so far */
};

void pages_init(struct pages *pages, struct wire *wire, const char *name);
/* Get the next page. The caller has to free *RET. */
int pages_get(struct pages *pages, Rdmabroker__Request *request,
	      Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret);
/* Fail with -EPROTO, because the broker announces a next page that does not advance. */
int pages_fail(const struct pages *pages);
/* Whether a page that begins at A, B comes after the one that began at FROM_A, FROM_B. */
bool pages_is_further(uint64_t a, uint32_t b, uint64_t from_a, uint32_t from_b);

/* The pages of an answer. The public structs that are made from the answer point into them. */
struct page_list {
	Rdmabroker__Frame **pages;
	size_t n;
};

/* Takes ownership of PAGE, also on failure, which is -ENOMEM. NAME is that of the call. */
int page_list_add(struct page_list *list, Rdmabroker__Frame *page, const char *name);
void page_list_free(struct page_list *list);
