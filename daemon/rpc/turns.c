/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>

#include "proto/timer.h"
#include "rpc/turns.h"
#include "util/hot.h"
#include "util/keyed.h"

/* An owner with what has joined, or a range with its owners. */
struct turn_owner {
	struct keyed
		keyed; /* turns.owners or turns.ranges; what has joined, and owners of a range, have references */
	struct turn_owner *range; /* NULL: none */
	uint64_t number; /* the turn of the loop in which WORK was used */
	unsigned work;
	/* in turns.waiting, or in the WAITING_OWNERS of the range, while there is put-off work */
	struct list waiting;
	struct list queued; /* turn.queued; of a range: none */
	struct list waiting_owners; /* turn_owner.waiting; only of a range */
};

static bool has_budget(const struct turns *turns, const struct turn_owner *owner)
{
	return owner->work < TURNS_BUDGET || owner->number != hot_get_turn(turns->hot);
}

static struct turn *next(const struct turn_owner *owner)
{
	struct list *l = list_first(&owner->queued);

	return l ? container_of(l, struct turn, queued) : NULL;
}

static bool has_work(const struct turn_owner *owner)
{
	return next(owner) || !list_is_empty(&owner->waiting_owners);
}

static void wait_last(struct list *waiting, struct turn_owner *owner)
{
	list_remove(&owner->waiting);
	if (has_work(owner))
		list_insert(waiting, &owner->waiting);
}

static void put(struct turn_owner *owner)
{
	struct turn_owner *range = owner->range;

	if (owner->keyed.n_refs == 1)
		list_remove(&owner->waiting);
	if (keyed_put(owner) && range)
		put(range);
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

	owner->keyed.n_refs++;
	while (has_budget(turns, owner) && (turn = take(owner)))
		turns->serve(turn);
	wait_last(&turns->waiting, owner);
	put(owner);
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
		timer_start(source, 0);
	return 0;
}

int turns_init(struct turns *turns, sd_event *loop, void (*serve)(struct turn *turn))
{
	turns->serve = serve;
	list_init(&turns->waiting);
	turns->hot = hot_ref(loop);
	if (!turns->hot)
		return -ENOMEM;
	return timer_new(&turns->source, loop, 1, on_source, turns);
}

void turns_done(struct turns *turns)
{
	assert(!turns->owners && !turns->ranges);
	sd_event_source_disable_unref(turns->source);
	turns->hot = hot_unref(turns->hot);
}

static struct turn_owner *get(struct keyed **table, uint64_t key)
{
	struct turn_owner *ret = keyed_get(table, key, sizeof(*ret));

	if (ret && ret->keyed.n_refs == 1) {
		list_init(&ret->waiting);
		list_init(&ret->queued);
		list_init(&ret->waiting_owners);
	}
	return ret;
}

static struct turn_owner *get_owner(struct turns *turns, struct owner owner)
{
	struct turn_owner *ret = get(&turns->owners, owner_key(owner));

	if (!ret || ret->keyed.n_refs > 1 || owner.range == OWNER_ALONE)
		return ret;
	ret->range = get(&turns->ranges, owner_group(owner));
	if (!ret->range) {
		put(ret);
		return NULL;
	}
	return ret;
}

int turns_join(struct turns *turns, struct turn *turn, struct owner owner)
{
	*turn = (struct turn){ .owner = get_owner(turns, owner) };
	list_init(&turn->queued);
	if (!turn->owner)
		return -ENOMEM;
	turn->turns = turns;
	return 0;
}

/* Of a range in which nobody waits any more, serve_owner() finds nothing to serve. */
void turns_leave(struct turn *turn)
{
	if (!turn->turns)
		return;
	list_remove(&turn->queued);
	turn->turns = NULL;
	put(turn->owner);
}

bool turns_may_go(const struct turn *turn)
{
	const struct turn_owner *owner = turn->owner;

	return HASH_COUNT(turn->turns->owners) == 1 ||
	       (list_is_empty(&owner->queued) && has_budget(turn->turns, owner) &&
		(!owner->range || has_budget(turn->turns, owner->range)));
}

bool turns_is_used_up(const struct turn *turn)
{
	return HASH_COUNT(turn->turns->owners) == 1 && !has_budget(turn->turns, turn->owner);
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
	timer_start(turn->turns->source, 0);
}

bool turns_is_put_off(const struct turn *turn)
{
	return !list_is_empty(&turn->queued);
}

bool turns_has_work(const struct turns *turns, struct owner owner)
{
	const struct turn_owner *found = keyed_find(turns->owners, owner_key(owner));

	return found && next(found);
}

static void charge(struct turns *turns, struct turn_owner *owner, unsigned work)
{
	uint64_t number = hot_get_turn(turns->hot);

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
