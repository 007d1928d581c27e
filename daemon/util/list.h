/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Intrusive, circular, doubly linked lists. A comment at each struct list names the head of an entry's list,
 * or the member that links a head's entries.
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

/* Inserts L before POS. If POS is the head, L becomes the last entry. */
static inline void list_insert(struct list *pos, struct list *l)
{
	l->prev = pos->prev;
	l->next = pos;
	pos->prev->next = l;
	pos->prev = l;
}

/* Idempotent: L becomes an empty list. */
static inline void list_remove(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

/* Appends all entries of FROM to those of TO. Both are heads. */
static inline void list_move_all(struct list *to, struct list *from)
{
	if (list_is_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

static inline struct list *list_first(const struct list *head)
{
	return list_is_empty(head) ? NULL : head->next;
}

#define list_for_each(l, head) for ((l) = (head)->next; (l) != (head); (l) = (l)->next)

/* The body can remove or free L, but not N. */
#define list_for_each_safe(l, n, head) \
	for ((l) = (head)->next, (n) = (l)->next; (l) != (head); (l) = (n), (n) = (l)->next)
