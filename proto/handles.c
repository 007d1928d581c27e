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
	for (size_t i = 0; i < handles->n_pages; i++)
		free(handles->pages[i]);
	free(handles->pages);
	*handles = (struct handles){ 0 };
}

static int grow(struct handles *handles, size_t min)
{
	size_t n = handles->n_pages ? handles->n_pages : 4;
	struct handles_page **pages;

	while (n < min)
		n *= 2;
	if (n == handles->n_pages)
		return 0;
	pages = reallocarray(handles->pages, n, sizeof(*pages));
	if (!pages)
		return -ENOMEM;
	memset(pages + handles->n_pages, 0, (n - handles->n_pages) * sizeof(*pages));
	handles->pages = pages;
	handles->n_pages = n;
	return 0;
}

/* Puts OBJECT at the place K of page I, which is free. */
static int put(struct handles *handles, void *object, size_t i, unsigned k)
{
	int r = grow(handles, i + 1);

	if (r < 0)
		return r;
	if (!handles->pages[i])
		handles->pages[i] = calloc(1, sizeof(*handles->pages[i]));
	if (!handles->pages[i])
		return -ENOMEM;
	handles->pages[i]->objects[k] = object;
	handles->pages[i]->n++;
	handles->n_used++;
	return 0;
}

int handles_add(struct handles *handles, void *object, uint32_t *ret)
{
	size_t i = handles->first_free;
	unsigned k = 0;
	int r;

	while (i < handles->n_pages && handles->pages[i] && handles->pages[i]->n == HANDLES_PAGE)
		i++;
	if (i < handles->n_pages && handles->pages[i])
		while (handles->pages[i]->objects[k])
			k++;
	r = put(handles, object, i, k);
	if (r < 0)
		return r;
	handles->first_free = i;
	*ret = (uint32_t)(i * HANDLES_PAGE + k) + 1;
	return 0;
}

int handles_add_at(struct handles *handles, void *object, uint32_t handle)
{
	assert(handle > 0);
	if (handles_get(handles, handle))
		return -EEXIST;
	return put(handles, object, (handle - 1) / HANDLES_PAGE, (handle - 1) % HANDLES_PAGE);
}

void handles_replace(struct handles *handles, void *object, uint32_t handle)
{
	assert(handles_get(handles, handle));
	handles->pages[(handle - 1) / HANDLES_PAGE]->objects[(handle - 1) % HANDLES_PAGE] = object;
}

void handles_remove(struct handles *handles, uint32_t handle)
{
	size_t i = (handle - 1) / HANDLES_PAGE;
	struct handles_page *page;

	assert(handles_get(handles, handle));
	page = handles->pages[i];
	page->objects[(handle - 1) % HANDLES_PAGE] = NULL;
	handles->n_used--;
	if (--page->n == 0) {
		free(page);
		handles->pages[i] = NULL;
	}
	if (i < handles->first_free)
		handles->first_free = i;
}

uint32_t handles_next(const struct handles *handles, uint32_t from)
{
	size_t i = (from - 1) / HANDLES_PAGE, k = (from - 1) % HANDLES_PAGE;

	for (; i < handles->n_pages; i++, k = 0)
		for (; handles->pages[i] && k < HANDLES_PAGE; k++)
			if (handles->pages[i]->objects[k])
				return (uint32_t)(i * HANDLES_PAGE + k) + 1;
	return 0;
}
