/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/id/idtable.h"

/* DYING marks the number of a destroyed id. Only the address of this object is used. */
static max_align_t dying;
static struct rdmabroker_id *const DYING = (struct rdmabroker_id *)&dying;

static int grow(struct idslots *slots, uint32_t min)
{
	uint32_t n = slots->n ? slots->n : 8;
	struct rdmabroker_id **p;

	while (n < min)
		n *= 2;
	if (n == slots->n)
		return 0;
	p = reallocarray(slots->ids, n, sizeof(*p));
	if (!p)
		return -ENOMEM;
	memset(p + slots->n, 0, (n - slots->n) * sizeof(*p));
	slots->ids = p;
	slots->n = n;
	return 0;
}

static int add_at(struct idslots *slots, struct rdmabroker_id *id, uint32_t i, uint32_t max)
{
	int r;

	if (i >= max)
		return -EDQUOT;
	r = grow(slots, i + 1);
	if (r < 0)
		return r;
	if (slots->ids[i])
		return -EEXIST;
	slots->ids[i] = id;
	return 0;
}

int idtable_add(struct idtable *table, struct rdmabroker_id *id, uint32_t *ret)
{
	struct idslots *own = &table->own;
	int r;

	while (own->n_full < own->n && own->ids[own->n_full])
		own->n_full++;
	r = add_at(own, id, own->n_full, table->max);
	if (r == 0)
		*ret = own->n_full + 1;
	return r;
}

int idtable_add_request(struct idtable *table, struct rdmabroker_id *id, uint32_t handle)
{
	return handle < FIRST_REQUEST ?
		       -EPROTO :
		       add_at(&table->requests, id, handle - FIRST_REQUEST, IDS_MAX);
}

bool idtable_has_dying(const struct idtable *table)
{
	for (uint32_t i = 0; i < table->own.n; i++)
		if (table->own.ids[i] == DYING)
			return true;
	return false;
}

static struct rdmabroker_id **find_slot(struct idtable *table, uint32_t handle)
{
	struct idslots *slots = handle >= FIRST_REQUEST ? &table->requests : &table->own;
	uint32_t i = handle >= FIRST_REQUEST ? handle - FIRST_REQUEST : handle - 1;

	return handle == 0 || i >= slots->n || !slots->ids[i] ? NULL : &slots->ids[i];
}

struct rdmabroker_id *idtable_find(struct idtable *table, uint32_t handle)
{
	struct rdmabroker_id **slot = find_slot(table, handle);

	return slot && *slot != DYING ? *slot : NULL;
}

void idtable_replace(struct idtable *table, uint32_t handle, struct rdmabroker_id *id)
{
	*find_slot(table, handle) = id;
}

void idtable_set_dying(struct idtable *table, uint32_t handle)
{
	*find_slot(table, handle) = DYING;
}

void idtable_free(struct idtable *table, uint32_t handle)
{
	*find_slot(table, handle) = NULL;
	if (handle < FIRST_REQUEST && handle - 1 < table->own.n_full)
		table->own.n_full = handle - 1;
}

struct rdmabroker_id *idtable_next(const struct idtable *table, uint32_t *pos)
{
	const struct idslots *requests = &table->requests, *own = &table->own;

	while (*pos < requests->n + own->n) {
		uint32_t i = (*pos)++;
		struct rdmabroker_id *id = i < requests->n ? requests->ids[i] :
							     own->ids[i - requests->n];

		if (id && id != DYING)
			return id;
	}
	return NULL;
}

void idtable_done(struct idtable *table)
{
	free(table->requests.ids);
	free(table->own.ids);
}
