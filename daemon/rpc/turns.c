/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* If memory runs out, uthash does not add an element, and sets the element's hh.tbl to NULL. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "proto/timer.h"
#include "rpc/turns.h"
#include "util/hot.h"

struct turn_owner {
	UT_hash_handle hh; /* turns.owners */
	uid_t uid;
	unsigned n; /* that have joined */
	uint64_t number; /* the turn of the loop in which WORK was used */
	unsigned work;
	struct list waiting; /* turns.waiting, while QUEUED has entries */
	struct list queued; /* turn.queued */
};

static void run_soon(struct turns *turns)
{
	timer_start(turns->source, 0);
}

static uint64_t get_number(const struct turns *turns)
{
	return hot_get_turn(turns->hot);
}

static bool has_budget(const struct turns *turns, const struct turn_owner *owner)
{
	return owner->work < TURNS_BUDGET || owner->number != get_number(turns);
}

static struct turn *next(struct turn_owner *owner)
{
	struct list *l = list_first(&owner->queued);

	return l ? container_of(l, struct turn, queued) : NULL;
}

/* Serves one owner. He can leave meanwhile, with his last session. */
static void serve_owner(struct turns *turns, struct turn_owner *owner)
{
	struct turn *turn;

	owner->n++;
	while ((turn = next(owner)) && has_budget(turns, owner)) {
		list_remove(&turn->queued);
		turns->serve(turn);
	}
	list_remove(&owner->waiting);
	if (next(owner))
		list_insert(&turns->waiting, &owner->waiting);
	turns_leave(&(struct turn){ .turns = turns, .owner = owner });
}

/*
 * The source is a timer that is due at once: the loop dispatches a timer after what is ready already, but would
 * dispatch a deferred source before it again and again.
 */
static int on_source(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct turns *turns = userdata;
	struct list *l = list_first(&turns->waiting);

	hot_next_turn(turns->hot);
	if (l)
		serve_owner(turns, container_of(l, struct turn_owner, waiting));
	if (!list_is_empty(&turns->waiting))
		run_soon(turns);
	return 0;
}

int turns_init(struct turns *turns, sd_event *loop, void (*serve)(struct turn *turn))
{
	int r;

	turns->serve = serve;
	list_init(&turns->waiting);
	turns->hot = hot_ref(loop);
	if (!turns->hot)
		return -ENOMEM;
	r = timer_new(&turns->source, loop, 1, on_source, turns);
	return r < 0 ? r : 0;
}

void turns_done(struct turns *turns)
{
	assert(!turns->owners);
	sd_event_source_disable_unref(turns->source);
	turns->hot = hot_unref(turns->hot);
}

static struct turn_owner *get_owner(struct turns *turns, uid_t uid)
{
	struct turn_owner *owner;

	HASH_FIND(hh, turns->owners, &uid, sizeof(uid), owner);
	if (owner)
		return owner;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->uid = uid;
	list_init(&owner->waiting);
	list_init(&owner->queued);
	HASH_ADD(hh, turns->owners, uid, sizeof(owner->uid), owner);
	if (!owner->hh.tbl) {
		free(owner);
		return NULL;
	}
	turns->n_owners++;
	return owner;
}

int turns_join(struct turns *turns, struct turn *turn, uid_t owner)
{
	*turn = (struct turn){ .owner = get_owner(turns, owner) };
	list_init(&turn->queued);
	if (!turn->owner)
		return -ENOMEM;
	turn->turns = turns;
	turn->owner->n++;
	return 0;
}

void turns_leave(struct turn *turn)
{
	struct turn_owner *owner = turn->owner;
	struct turns *turns = turn->turns;

	if (!turns)
		return;
	if (turn->queued.next)
		list_remove(&turn->queued);
	turn->turns = NULL;
	if (--owner->n > 0)
		return;
	list_remove(&owner->waiting);
	HASH_DEL(turns->owners, owner);
	turns->n_owners--;
	free(owner);
}

bool turns_may_go(const struct turn *turn)
{
	return turn->turns->n_owners == 1 ||
	       (list_is_empty(&turn->owner->queued) && has_budget(turn->turns, turn->owner));
}

bool turns_is_used_up(const struct turn *turn)
{
	return turn->turns->n_owners == 1 && !has_budget(turn->turns, turn->owner);
}

void turns_put_off(struct turn *turn)
{
	struct turn_owner *owner = turn->owner;

	if (turns_is_put_off(turn))
		return;
	list_insert(&owner->queued, &turn->queued);
	if (!list_is_empty(&owner->waiting))
		return;
	list_insert(&turn->turns->waiting, &owner->waiting);
	run_soon(turn->turns);
}

bool turns_is_put_off(const struct turn *turn)
{
	return !list_is_empty(&turn->queued);
}

void turns_charge(struct turn *turn, unsigned work)
{
	struct turn_owner *owner = turn->owner;
	uint64_t number = get_number(turn->turns);

	if (owner->number != number) {
		owner->number = number;
		owner->work = 0;
	}
	owner->work += work;
}
