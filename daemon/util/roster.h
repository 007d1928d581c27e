/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Objects in the order of their numbers, which are unique. New objects usually have the highest number, so adding one,
 * finding one and going on to the next take as long among ten thousand objects as among a hundred, apart from a binary
 * search.
 */

#include <stddef.h>
#include <stdint.h>

struct roster_entry;

struct roster {
	struct roster_entry *entries; /* sorted; those of removed objects stay for a while */
	size_t n, n_used, n_allocated;
};

void roster_done(struct roster *roster); /* all objects must have been removed */
/* Returns 0; -EEXIST: NUMBER is used; or -ENOMEM, but not right after an object was removed. */
int roster_add(struct roster *roster, uint64_t number, void *object);
void roster_remove(struct roster *roster, uint64_t number); /* NUMBER must be used */
/* The object with the lowest number that is at least NUMBER; NULL: none. */
void *roster_from(const struct roster *roster, uint64_t number);
/* The object with this number; NULL: none. */
void *roster_get(const struct roster *roster, uint64_t number);
