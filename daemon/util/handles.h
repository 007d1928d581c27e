/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Small integers that stand for objects. The lowest free number is given out, from 1 on: 0 is no
 * handle. Look-up is an array access.
 */

#include <stddef.h>
#include <stdint.h>

struct handles {
	void **objects; /* [handle - 1]; NULL: free */
	size_t n_allocated;
	size_t n_used;
	size_t first_free; /* no free entry lies before it */
};

void handles_done(struct handles *handles); /* all must have been removed */
int handles_add(struct handles *handles, void *object, uint32_t *ret);
/* Under a number of the caller's choice. -EEXIST: it is in use. Memory grows with the number. */
int handles_add_at(struct handles *handles, void *object, uint32_t handle);
void handles_remove(struct handles *handles, uint32_t handle);

static inline void *handles_get(const struct handles *handles, uint32_t handle)
{
	return handle == 0 || handle > handles->n_allocated ? NULL : handles->objects[handle - 1];
}

/* The first that is in use, from FROM on; 0: none is. */
static inline uint32_t handles_next(const struct handles *handles, uint32_t from)
{
	for (; from <= handles->n_allocated; from++)
		if (handles_get(handles, from))
			return from;
	return 0;
}
