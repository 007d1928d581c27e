/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Intrusive, circular, doubly linked lists. Where a struct has a struct list, a comment names the counterpart: the
 * head of the list for an entry, the member that links the entries for a head.
 */

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev, *next;
};

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

/* Inserts L before POS. If POS is the list's head, L becomes the last entry. */
static inline void list_insert(struct list *pos, struct list *l)
{
	l->prev = pos->prev;
	l->next = pos;
	pos->prev->next = l;
	pos->prev = l;
}

/* Removes L from its list. L becomes an empty list, so removing it again has no effect. */
static inline void list_remove(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

static inline struct list *list_first(const struct list *head)
{
	return list_is_empty(head) ? NULL : head->next;
}

#define list_for_each(l, head) for ((l) = (head)->next; (l) != (head); (l) = (l)->next)

/* The body can remove or free the entry L. It must not remove other entries. */
#define list_for_each_safe(l, n, head) \
	for ((l) = (head)->next, (n) = (l)->next; (l) != (head); (l) = (n), (n) = (l)->next)
