/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/facts/identity.h"
#include "core/object/restriction.h"
#include "rpc/arrivals.h"
#include "rpc/peers.h"

#define NOBODY ((uid_t)-1)

static void arrival_free(struct arrival *arrival)
{
	turns_leave(&arrival->turn);
	list_remove(&arrival->link);
	charge_done(&arrival->place);
	charge_done(&arrival->fd);
	restriction_unref(arrival->restriction);
	free(arrival);
}

/* A turn is one client, as much as the budget of the requests that it will make. */
static void serve(struct turn *turn)
{
	struct arrival *arrival = container_of(turn, struct arrival, turn);
	struct arrivals *arrivals = arrival->arrivals;

	turns_charge(turn, TURNS_BUDGET);
	if (arrivals->admit(arrivals->userdata, arrival))
		arrival_free(arrival);
	else
		turns_put_off(turn);
}

static uint64_t part_of(uint64_t descriptors, unsigned part, uint64_t least, uint64_t most)
{
	uint64_t n = descriptors / part;

	return n < least ? least : n > most ? most : n;
}

/* Where there are few descriptors, few can wait. The limits of the daemon can be changed by a reload. */
static void set_limits(struct arrivals *arrivals)
{
	uint64_t n = arrivals->descriptors->limit[ACCOUNT_FDS];
	struct account *account = &arrivals->account;

	account->limit[ACCOUNT_SESSIONS] = part_of(n, 2, ARRIVALS_MIN, ARRIVALS_MAX);
	account->limit_per_user[ACCOUNT_SESSIONS] =
		part_of(n, 4, ARRIVALS_MIN / 2, ARRIVALS_PER_USER);
}

int arrivals_init(struct arrivals *arrivals, sd_event *loop, struct account *descriptors,
		  bool (*admit)(void *userdata, struct arrival *arrival), void *userdata)
{
	list_init(&arrivals->list);
	account_init(&arrivals->account);
	arrivals->descriptors = descriptors;
	set_limits(arrivals);
	arrivals->admit = admit;
	arrivals->userdata = userdata;
	return turns_init(&arrivals->turns, loop, serve);
}

void arrivals_done(struct arrivals *arrivals)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &arrivals->list) {
		struct arrival *arrival = container_of(l, struct arrival, link);

		peers_refuse(arrival->closing, arrival->sock);
		arrival_free(arrival);
	}
	turns_done(&arrivals->turns);
	account_done(&arrivals->account);
}

bool arrivals_are_full(const struct arrivals *arrivals)
{
	return account_is_full(&arrivals->account, ACCOUNT_SESSIONS);
}

int arrivals_add(struct arrivals *arrivals, struct closing *closing, int sock, enum door door,
		 struct restriction *restriction)
{
	struct arrival *arrival = calloc(1, sizeof(*arrival));
	struct owner owner;
	int r = arrival ? identity_find_owner(&owner, sock) : -ENOMEM;

	if (r < 0) {
		free(arrival);
		peers_refuse(closing, sock);
		return r;
	}
	list_init(&arrival->link);
	set_limits(arrivals);
	r = account_charge(&arrivals->account, &arrival->place, ACCOUNT_SESSIONS, 1, owner);
	/* Not to the owner, whose sessions would have less room the more of his clients wait. */
	if (r == 0)
		r = account_add(arrivals->descriptors, &arrival->fd, ACCOUNT_FDS, 1,
				owner_of(NOBODY));
	if (r == 0)
		r = turns_join(&arrivals->turns, &arrival->turn, owner);
	if (r < 0) {
		arrival_free(arrival);
		peers_refuse(closing, sock);
		return r;
	}
	arrival->arrivals = arrivals;
	arrival->owner = owner;
	arrival->closing = closing;
	arrival->sock = sock;
	arrival->door = door;
	arrival->restriction = restriction_ref(restriction);
	list_insert(&arrivals->list, &arrival->link);
	turns_put_off(&arrival->turn);
	return 0;
}
