/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Maps small integers (handles) to objects. handles_add() gives a new object the lowest free number, from 1 on. */

#include <stddef.h>
#include <stdint.h>

struct handles {
	void **objects; /* index: handle - 1; NULL: free */
	size_t n_allocated;
	size_t n_used;
	size_t first_free; /* all entries before this one are in use */
};

void handles_done(struct handles *handles); /* all objects must have been removed */
/* The same, whatever objects there are. */
void handles_drop(struct handles *handles);
int handles_add(struct handles *handles, void *object, uint32_t *ret);
/* -EEXIST: HANDLE is in use. The table's memory grows with the highest handle. */
int handles_add_at(struct handles *handles, void *object, uint32_t handle);
void handles_remove(struct handles *handles, uint32_t handle);

static inline void *handles_get(const struct handles *handles, uint32_t handle)
{
	return handle == 0 || handle > handles->n_allocated ? NULL : handles->objects[handle - 1];
}

/* Returns the first handle in use that is not below FROM; 0: there is none. */
static inline uint32_t handles_next(const struct handles *handles, uint32_t from)
{
	for (; from <= handles->n_allocated; from++)
		if (handles_get(handles, from))
			return from;
	return 0;
}
