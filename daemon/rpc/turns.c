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

/* An owner with what has joined, or a range with its owners. */
struct turn_owner {
	UT_hash_handle hh; /* turns.owners or turns.ranges */
	struct owner owner; /* of a range: any of its owners */
	uint64_t key; /* owner_group() of a range */
	bool is_range;
	struct turn_owner *range; /* NULL: none */
	unsigned n; /* of what has joined, or of owners */
	uint64_t number; /* the turn of the loop in which WORK was used */
	unsigned work;
	/* in turns.waiting, or in the WAITING_OWNERS of the range, while there is put-off work */
	struct list waiting;
	struct list queued; /* turn.queued; of a range: none */
	struct list waiting_owners; /* turn_owner.waiting; only of a range */
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

static bool has_work(struct turn_owner *owner)
{
	return next(owner) || !list_is_empty(&owner->waiting_owners);
}

static void wait_last(struct list *waiting, struct turn_owner *owner)
{
	list_remove(&owner->waiting);
	if (has_work(owner))
		list_insert(waiting, &owner->waiting);
}

static void hold(struct turn_owner *owner)
{
	owner->n++;
}

static void put_range(struct turns *turns, struct turn_owner *range)
{
	if (!range || --range->n > 0)
		return;
	list_remove(&range->waiting);
	HASH_DEL(turns->ranges, range);
	free(range);
}

static void put(struct turns *turns, struct turn_owner *owner)
{
	if (owner->is_range) {
		put_range(turns, owner);
		return;
	}
	if (--owner->n > 0)
		return;
	list_remove(&owner->waiting);
	HASH_DEL(turns->owners, owner);
	turns->n_owners--;
	put_range(turns, owner->range);
	free(owner);
}

/* The owners of a range are served in rotation, one request of each. */
static struct turn *take(struct turn_owner *owner)
{
	struct list *l = list_first(&owner->waiting_owners);
	struct turn_owner *from = l ? container_of(l, struct turn_owner, waiting) : owner;
	struct turn *turn = next(from);

	if (turn)
		list_remove(&turn->queued);
	if (from != owner)
		wait_last(&owner->waiting_owners, from);
	return turn;
}

/* Serves a range, or an owner in none. He can leave meanwhile, with his last session. */
static void serve_owner(struct turns *turns, struct turn_owner *owner)
{
	struct turn *turn;

	hold(owner);
	while (has_budget(turns, owner) && (turn = take(owner)))
		turns->serve(turn);
	wait_last(&turns->waiting, owner);
	put(turns, owner);
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
	assert(!turns->owners && !turns->ranges);
	sd_event_source_disable_unref(turns->source);
	turns->hot = hot_unref(turns->hot);
}

static struct turn_owner *owner_new(struct owner owner, bool is_range)
{
	struct turn_owner *ret = calloc(1, sizeof(*ret));

	if (!ret)
		return NULL;
	ret->owner = owner;
	ret->key = owner_group(owner);
	ret->is_range = is_range;
	list_init(&ret->waiting);
	list_init(&ret->queued);
	list_init(&ret->waiting_owners);
	return ret;
}

static struct turn_owner *get_range(struct turns *turns, struct owner owner)
{
	uint64_t key = owner_group(owner);
	struct turn_owner *range;

	HASH_FIND(hh, turns->ranges, &key, sizeof(key), range);
	if (!range) {
		range = owner_new(owner, /* is_range= */ true);
		if (!range)
			return NULL;
		HASH_ADD(hh, turns->ranges, key, sizeof(range->key), range);
		if (!range->hh.tbl) {
			free(range);
			return NULL;
		}
	}
	hold(range);
	return range;
}

static struct turn_owner *get_owner(struct turns *turns, struct owner owner)
{
	struct turn_owner *ret;

	HASH_FIND(hh, turns->owners, &owner, sizeof(owner), ret);
	if (ret)
		return ret;
	ret = owner_new(owner, /* is_range= */ false);
	if (!ret)
		return NULL;
	if (owner.range != OWNER_ALONE) {
		ret->range = get_range(turns, owner);
		if (!ret->range) {
			free(ret);
			return NULL;
		}
	}
	HASH_ADD(hh, turns->owners, owner, sizeof(ret->owner), ret);
	if (!ret->hh.tbl) {
		put_range(turns, ret->range);
		free(ret);
		return NULL;
	}
	turns->n_owners++;
	return ret;
}

int turns_join(struct turns *turns, struct turn *turn, struct owner owner)
{
	*turn = (struct turn){ .owner = get_owner(turns, owner) };
	list_init(&turn->queued);
	if (!turn->owner)
		return -ENOMEM;
	turn->turns = turns;
	hold(turn->owner);
	return 0;
}

/* Of a range in which nobody waits any more, serve_owner() finds nothing to serve. */
void turns_leave(struct turn *turn)
{
	struct turns *turns = turn->turns;

	if (!turns)
		return;
	if (turn->queued.next)
		list_remove(&turn->queued);
	turn->turns = NULL;
	put(turns, turn->owner);
}

bool turns_may_go(const struct turn *turn)
{
	const struct turn_owner *owner = turn->owner;

	return turn->turns->n_owners == 1 ||
	       (list_is_empty(&owner->queued) && has_budget(turn->turns, owner) &&
		(!owner->range || has_budget(turn->turns, owner->range)));
}

bool turns_is_used_up(const struct turn *turn)
{
	return turn->turns->n_owners == 1 && !has_budget(turn->turns, turn->owner);
}

static void wait_for_turn(struct list *waiting, struct turn_owner *owner)
{
	if (list_is_empty(&owner->waiting))
		list_insert(waiting, &owner->waiting);
}

void turns_put_off(struct turn *turn)
{
	struct turn_owner *owner = turn->owner, *range = owner->range;

	if (turns_is_put_off(turn))
		return;
	list_insert(&owner->queued, &turn->queued);
	if (range)
		wait_for_turn(&range->waiting_owners, owner);
	wait_for_turn(&turn->turns->waiting, range ?: owner);
	run_soon(turn->turns);
}

bool turns_is_put_off(const struct turn *turn)
{
	return !list_is_empty(&turn->queued);
}

bool turns_has_work(const struct turns *turns, struct owner owner)
{
	struct turn_owner *found;

	HASH_FIND(hh, turns->owners, &owner, sizeof(owner), found);
	return found && next(found);
}

static void charge(struct turns *turns, struct turn_owner *owner, unsigned work)
{
	uint64_t number = get_number(turns);

	if (owner->number != number) {
		owner->number = number;
		owner->work = 0;
	}
	owner->work += work;
}

void turns_charge(struct turn *turn, unsigned work)
{
	charge(turn->turns, turn->owner, work);
	if (turn->owner->range)
		charge(turn->turns, turn->owner->range, work);
}
