/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/handles.h"

void handles_done(struct handles *handles)
{
	assert(handles->n_used == 0);
	handles_drop(handles);
}

void handles_drop(struct handles *handles)
{
	free(handles->objects);
	*handles = (struct handles){ 0 };
}

static int grow(struct handles *handles, size_t min)
{
	size_t n = handles->n_allocated ? handles->n_allocated : 8;
	void **objects;

	while (n < min)
		n *= 2;
	if (n == handles->n_allocated)
		return 0;
	objects = reallocarray(handles->objects, n, sizeof(*objects));
	if (!objects)
		return -ENOMEM;
	memset(objects + handles->n_allocated, 0, (n - handles->n_allocated) * sizeof(*objects));
	handles->objects = objects;
	handles->n_allocated = n;
	return 0;
}

int handles_add(struct handles *handles, void *object, uint32_t *ret)
{
	size_t i = handles->first_free;
	int r;

	while (i < handles->n_allocated && handles->objects[i])
		i++;
	r = grow(handles, i + 1);
	if (r < 0)
		return r;
	handles->objects[i] = object;
	handles->first_free = i + 1;
	handles->n_used++;
	*ret = (uint32_t)i + 1;
	return 0;
}

int handles_add_at(struct handles *handles, void *object, uint32_t handle)
{
	int r;

	assert(handle > 0);
	if (handles_get(handles, handle))
		return -EEXIST;
	r = grow(handles, handle);
	if (r < 0)
		return r;
	handles->objects[handle - 1] = object;
	handles->n_used++;
	return 0;
}

void handles_remove(struct handles *handles, uint32_t handle)
{
	assert(handles_get(handles, handle));
	handles->objects[handle - 1] = NULL;
	handles->n_used--;
	if (handle - 1 < handles->first_free)
		handles->first_free = handle - 1;
}
