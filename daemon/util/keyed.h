/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Objects that are found by a number, made when they are first needed, and freed with their last reference. A struct
 * keyed is their first member. A table of them is a pointer, NULL while it is empty, that must not be moved.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/hash.h"

struct keyed {
	UT_hash_handle hh;
	struct keyed **table;
	uint64_t key;
	unsigned n_refs;
};

void *keyed_find(struct keyed *table, uint64_t key); /* NULL: there is none */
/*
 * Takes a reference to the object with KEY. If there is none, makes one of SIZE bytes, which has one reference, and is
 * all zero behind its struct keyed. NULL: there is no memory.
 */
void *keyed_get(struct keyed **table, uint64_t key, size_t size);
/* Gives a reference back. True: it was the last one, and OBJECT is freed. */
bool keyed_put(void *object);
