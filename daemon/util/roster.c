/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/roster.h"
#include "util/util.h"

#define ALLOCATED_MIN 16

struct roster_entry {
	uint64_t number;
	void *object; /* NULL: removed */
};

void roster_done(struct roster *roster)
{
	assert(roster->n_used == 0);
	free(roster->entries);
	*roster = (struct roster){ 0 };
}

/* The first entry whose number is at least NUMBER, or the end. */
static size_t find(const struct roster *roster, uint64_t number)
{
	return LOWER_BOUND(i, roster->n, roster->entries[i].number < number);
}

static struct roster_entry *find_exactly(const struct roster *roster, uint64_t number)
{
	size_t i = find(roster, number);

	return i < roster->n && roster->entries[i].number == number ? &roster->entries[i] : NULL;
}

/* Drops the entries of removed objects. */
static void compact(struct roster *roster)
{
	size_t n = 0;

	for (size_t i = 0; i < roster->n; i++)
		if (roster->entries[i].object)
			roster->entries[n++] = roster->entries[i];
	roster->n = n;
}

static int make_room(struct roster *roster)
{
	size_t n = roster->n_allocated > 0 ? 2 * roster->n_allocated : ALLOCATED_MIN;
	struct roster_entry *grown;

	if (roster->n < roster->n_allocated)
		return 0;
	if (roster->n_used < roster->n) {
		compact(roster);
		return 0;
	}
	grown = reallocarray(roster->entries, n, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	roster->entries = grown;
	roster->n_allocated = n;
	return 0;
}

int roster_add(struct roster *roster, uint64_t number, void *object)
{
	struct roster_entry *entry = find_exactly(roster, number);
	size_t i;
	int r;

	if (entry && entry->object)
		return -EEXIST;
	if (!entry) {
		r = make_room(roster);
		if (r < 0)
			return r;
		i = find(roster, number);
		entry = &roster->entries[i];
		memmove(entry + 1, entry, (roster->n - i) * sizeof(*entry));
		roster->n++;
	}
	*entry = (struct roster_entry){ .number = number, .object = object };
	roster->n_used++;
	return 0;
}

void roster_remove(struct roster *roster, uint64_t number)
{
	struct roster_entry *entry = find_exactly(roster, number);

	assert(entry && entry->object);
	entry->object = NULL;
	roster->n_used--;
	while (roster->n > 0 && !roster->entries[roster->n - 1].object)
		roster->n--;
	/* At most half of the entries are of removed objects, so each removal pays for two entries that are walked here. */
	if (roster->n_used < roster->n / 2)
		compact(roster);
}

void *roster_from(const struct roster *roster, uint64_t number)
{
	for (size_t i = find(roster, number); i < roster->n; i++)
		if (roster->entries[i].object)
			return roster->entries[i].object;
	return NULL;
}

void *roster_get(const struct roster *roster, uint64_t number)
{
	const struct roster_entry *entry = find_exactly(roster, number);

	return entry ? entry->object : NULL;
}
