/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "core/facts/identity.h"
#include "core/object/restriction.h"
#include "rpc/arrivals.h"
#include "rpc/peers.h"
#include "util/util.h"

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

int arrivals_init(struct arrivals *arrivals, sd_event *loop, struct account *descriptors,
		  bool (*admit)(void *userdata, struct arrival *arrival), void *userdata)
{
	list_init(&arrivals->list);
	account_init(&arrivals->account);
	arrivals->account.limit[ACCOUNT_SESSIONS] = ARRIVALS_MAX;
	arrivals->account.limit_per_user[ACCOUNT_SESSIONS] = ARRIVALS_PER_USER;
	arrivals->descriptors = descriptors;
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

/* Those who wait take no more descriptors than their owner can have, but for a few, who are told so when they are served. */
static int charge_fd(struct arrivals *arrivals, struct arrival *arrival, struct owner owner)
{
	uint64_t n = account_get_used(&arrivals->account, ACCOUNT_SESSIONS, owner);
	int r = account_charge(arrivals->descriptors, &arrival->fd, ACCOUNT_FDS, 1, owner);

	if ((r == -EDQUOT || r == -EUSERS) && n <= NEWCOMERS_PER_USER)
		r = account_add(arrivals->descriptors, &arrival->fd, ACCOUNT_FDS, 1, owner);
	return r == -EUSERS ? -EDQUOT : r;
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
	r = account_charge(&arrivals->account, &arrival->place, ACCOUNT_SESSIONS, 1, owner);
	if (r == 0)
		r = charge_fd(arrivals, arrival, owner);
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
