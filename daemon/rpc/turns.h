/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Whose turn it is. In one turn of the loop each owner of sessions gets a budget of work. What he wants beyond it is
 * put off: it waits in his own queue, and the owners whose queues are not empty are served in rotation. So however many
 * sessions an owner has, and whatever they request, another owner waits for one budget of each owner who has put-off
 * work, and not for all of their requests.
 *
 * The owners of a range (util/owner.h) have one budget together, and one place in the rotation. When its turn has come,
 * they are served in a rotation of their own.
 *
 * While only one owner has sessions, nothing is put off.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "util/list.h"
#include "util/owner.h"

/* One unit is about what the smallest request costs; request.c's table has the others. */
#define TURNS_BUDGET 32
/* One unit is also the comparison of so many rules. The decisions of an ordinary policy are in the work of the request. */
#define TURNS_RULES 64

struct hot;
struct keyed;
struct turn;
struct turn_owner;

struct turns {
	struct keyed *owners; /* turn_owner.keyed, by owner_key() */
	struct keyed *ranges; /* the same, by owner_group() */
	struct list
		waiting; /* turn_owner.waiting: ranges, and owners in none, with put-off work; the next one first */
	struct hot *hot;
	sd_event_source *source; /* enabled while WAITING has entries */
	void (*serve)(struct turn *turn);
};

/* Embedded in what is served. */
struct turn {
	struct turns *turns; /* NULL: not joined */
	struct turn_owner *owner;
	struct list queued; /* turn_owner.queued */
};

/* SERVE is called for what was put off, when its turn has come. TURNS must be all zero. Call turns_done() also on failure. */
int turns_init(struct turns *turns, sd_event *loop, void (*serve)(struct turn *turn));
void turns_done(struct turns *turns); /* all must have left */

int turns_join(struct turns *turns, struct turn *turn, struct owner owner); /* 0 or -ENOMEM */
void turns_leave(struct turn *turn); /* idempotent */

/* False: the owner has used up his budget, or has put-off work, so TURN has to be put off. */
bool turns_may_go(const struct turn *turn);
/* Puts TURN off, unless it is already. */
void turns_put_off(struct turn *turn);
bool turns_is_put_off(const struct turn *turn);
/* True: OWNER has put-off work. */
bool turns_has_work(const struct turns *turns, struct owner owner);
/* True: the only owner has used up his budget in this turn of the loop. */
bool turns_is_used_up(const struct turn *turn);
/* TURN's owner has used WORK of the budget. */
void turns_charge(struct turn *turn, unsigned work);
