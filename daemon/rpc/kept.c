/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "rpc/kept.h"
#include "rpc/request.h"
#include "takeover/ledger.h"
#include "util/util.h"

struct kept *kept_new(const uint8_t *data, size_t len, uint32_t handle, uint64_t number)
{
	struct kept *kept = malloc(sizeof(*kept) + len);

	if (!kept)
		return NULL;
	*kept = (struct kept){ .handle = handle, .number = number, .len = len };
	list_init(&kept->link);
	memcpy(kept->data, data, len);
	return kept;
}

struct kept *kept_free(struct kept *kept)
{
	if (!kept)
		return NULL;
	list_remove(&kept->link);
	ledger_remove_aside(kept->ledger, kept->row);
	free(kept);
	return NULL;
}

static bool add_row(struct kept *kept, struct ledger *ledger, uint64_t session)
{
	struct ledger_aside *row;

	if (!ledger || kept->row)
		return true;
	row = kept->len <= sizeof(row->packet) ? ledger_add_aside(ledger) : NULL;
	if (!row)
		return false;
	row->id = kept->handle;
	row->len = (uint16_t)kept->len;
	row->repeated = kept->repeated;
	memcpy(row->packet, kept->data, kept->len);
	row->session = session;
	kept->ledger = ledger;
	kept->row = row;
	return true;
}

bool kept_set_aside(struct kept *kept, struct list *asides, struct ledger *ledger, uint64_t session)
{
	unsigned n = 0;
	struct list *l;

	list_for_each(l, asides)
		n++;
	if (n >= KEPT_ASIDES_MAX || !add_row(kept, ledger, session))
		return false;
	kept->was_aside = true;
	list_insert(asides, &kept->link);
	return true;
}

struct kept *kept_find(const struct list *asides, uint32_t handle)
{
	struct list *l;

	list_for_each(l, asides) {
		struct kept *kept = container_of(l, struct kept, link);

		if (kept->handle == handle)
			return kept;
	}
	return NULL;
}

struct kept *kept_next(const struct list *asides)
{
	struct list *l;

	list_for_each(l, asides) {
		struct kept *kept = container_of(l, struct kept, link);

		if (kept->goes_on)
			return kept;
	}
	return NULL;
}

bool kept_blocks(const struct list *asides, const Rdmabroker__Request *request)
{
	uint32_t handle = request_get_handle(request);

	if (handle > 0)
		return kept_find(asides, handle) != NULL;
	return request->op_case == RDMABROKER__REQUEST__OP_GOODBYE ||
	       request->op_case == RDMABROKER__REQUEST__OP_RELEASE_SESSION;
}
