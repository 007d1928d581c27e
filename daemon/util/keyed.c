/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdint.h>
#include <stdlib.h>

/* Requests are found an owner by this, so it is short: the upper half of a product. */
#define HASH_FUNCTION(key, len, value) \
	((value) = (unsigned)(*(const uint64_t *)(key)*0x9e3779b97f4a7c15 >> 32))

#include "util/keyed.h"

void *keyed_find(struct keyed *table, uint64_t key)
{
	struct keyed *found;

	HASH_FIND(hh, table, &key, sizeof(key), found);
	return found;
}

void *keyed_get(struct keyed **table, uint64_t key, size_t size)
{
	struct keyed *object = keyed_find(*table, key);

	if (!object) {
		object = calloc(1, size);
		if (!object)
			return NULL;
		object->table = table;
		object->key = key;
		HASH_ADD(hh, *table, key, sizeof(object->key), object);
		if (!object->hh.tbl) {
			free(object);
			return NULL;
		}
	}
	object->n_refs++;
	return object;
}

bool keyed_put(void *object)
{
	struct keyed *keyed = object;

	if (--keyed->n_refs > 0)
		return false;
	HASH_DEL(*keyed->table, keyed);
	free(keyed);
	return true;
}
