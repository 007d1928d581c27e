/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Maps small integers (handles) to objects. handles_add() gives a new object the lowest free number, from 1 on. Who chooses
 * the numbers himself takes little memory for each: the table has pages, which are made when they are used and freed
 * when they are empty.
 */

#include <stddef.h>
#include <stdint.h>

#define HANDLES_PAGE 32

struct handles_page {
	unsigned n; /* objects */
	void *objects[HANDLES_PAGE]; /* NULL: free */
};

struct handles {
	struct handles_page **pages; /* index: (handle - 1) / HANDLES_PAGE; NULL: empty */
	size_t n_pages;
	size_t n_used;
	size_t first_free; /* all pages before this one are full */
};

void handles_done(struct handles *handles); /* all objects must have been removed */
/* The same, whatever objects there are. */
void handles_drop(struct handles *handles);
int handles_add(struct handles *handles, void *object, uint32_t *ret);
int handles_add_at(struct handles *handles, void *object,
		   uint32_t handle); /* -EEXIST: HANDLE is in use */
void handles_replace(struct handles *handles, void *object, uint32_t handle); /* HANDLE is in use */
void handles_remove(struct handles *handles, uint32_t handle);
/* Returns the first handle in use that is not below FROM, which is not 0; 0: there is none. */
uint32_t handles_next(const struct handles *handles, uint32_t from);

static inline void *handles_get(const struct handles *handles, uint32_t handle)
{
	size_t i = (handle - 1) / HANDLES_PAGE;

	if (handle == 0 || i >= handles->n_pages || !handles->pages[i])
		return NULL;
	return handles->pages[i]->objects[(handle - 1) % HANDLES_PAGE];
}
