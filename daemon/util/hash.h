/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Hash tables of uthash. If memory runs out, it does not add an element, and sets the element's hh.tbl to NULL. */

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* Adds ELEMENT by its member KEY. If memory runs out, ELEMENT is freed, and NULL. */
#define HASH_ADD_OR_FREE(table, key, element)                              \
	do {                                                               \
		HASH_ADD(hh, table, key, sizeof((element)->key), element); \
		if (!(element)->hh.tbl) {                                  \
			free(element);                                     \
			(element) = NULL;                                  \
		}                                                          \
	} while (0)
