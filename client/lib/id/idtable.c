/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>

#include "client/lib/id/idtable.h"

/* DYING marks the number of a destroyed id. Only the address of this object is used. */
static max_align_t dying;
static struct rdmabroker_id *const DYING = (struct rdmabroker_id *)&dying;

int idtable_add(struct idtable *table, struct rdmabroker_id *id, uint32_t *ret)
{
	return table->own.n_used < table->max ? handles_add(&table->own, id, ret) : -EDQUOT;
}

int idtable_add_request(struct idtable *table, struct rdmabroker_id *id, uint32_t handle)
{
	if (handle < FIRST_REQUEST)
		return -EPROTO;
	if (handle - FIRST_REQUEST >= IDS_MAX)
		return -EDQUOT;
	return handles_add_at(&table->requests, id, handle - FIRST_REQUEST + 1);
}

bool idtable_has_dying(const struct idtable *table)
{
	uint32_t i = 0;

	while ((i = handles_next(&table->own, i + 1)) > 0)
		if (handles_get(&table->own, i) == DYING)
			return true;
	return false;
}

/* The part of TABLE that has *HANDLE, and the number there. */
static struct handles *choose(struct idtable *table, uint32_t *handle)
{
	if (*handle < FIRST_REQUEST)
		return &table->own;
	*handle -= FIRST_REQUEST - 1;
	return &table->requests;
}

struct rdmabroker_id *idtable_find(struct idtable *table, uint32_t handle)
{
	const struct handles *handles = choose(table, &handle);
	struct rdmabroker_id *id = handles_get(handles, handle);

	return id != DYING ? id : NULL;
}

void idtable_replace(struct idtable *table, uint32_t handle, struct rdmabroker_id *id)
{
	struct handles *handles = choose(table, &handle);

	handles_replace(handles, id, handle);
}

void idtable_set_dying(struct idtable *table, uint32_t handle)
{
	idtable_replace(table, handle, DYING);
}

void idtable_free(struct idtable *table, uint32_t handle)
{
	struct handles *handles = choose(table, &handle);

	handles_remove(handles, handle);
}

struct rdmabroker_id *idtable_next(const struct idtable *table, uint32_t *pos)
{
	const struct handles *handles = *pos < FIRST_REQUEST ? &table->own : &table->requests;
	uint32_t first = *pos < FIRST_REQUEST ? 0 : FIRST_REQUEST, i = *pos - first;

	for (;;) {
		i = handles_next(handles, i + 1);
		if (i == 0 && first)
			return NULL;
		if (i == 0) {
			handles = &table->requests;
			first = FIRST_REQUEST;
			continue;
		}
		*pos = first + i;
		if (handles_get(handles, i) != DYING)
			return handles_get(handles, i);
	}
}

void idtable_done(struct idtable *table)
{
	handles_drop(&table->requests);
	handles_drop(&table->own);
}
