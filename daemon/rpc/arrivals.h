/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The arrivals are the clients that are accepted, and that nothing was done for yet: they have neither a peer nor a
 * session. To accept a client costs little, so all who have connected are accepted soon, whoever is before them in the
 * queue of the listening socket. What has to be done for a client takes longer: for that the owners take turns, so that
 * one with many clients delays only his own.
 */

#include <systemd/sd-event.h>

#include "core/facts/door.h"
#include "rpc/turns.h"
#include "util/account.h"
#include "util/list.h"

/*
 * Half of the descriptors for clients, and for each user a quarter: as many as the sessions that he could have. But not
 * more, or less, than these.
 */
#define ARRIVALS_MAX 8192
#define ARRIVALS_PER_USER 2048
#define ARRIVALS_MIN 128

struct arrivals;
struct closing;
struct restriction;

struct arrival {
	struct turn turn; /* arrivals.turns */
	struct list link; /* arrivals.list */
	struct arrivals *arrivals;
	struct owner owner;
	struct closing *closing; /* will close SOCK; not bound yet */
	int sock;
	enum door door;
	struct restriction *restriction; /* NULL: none */
	struct charge place; /* in arrivals.account */
	struct charge fd; /* SOCK, in the account of descriptors, to nobody */
};

struct arrivals {
	struct turns turns; /* arrival.turn */
	struct list list; /* arrival.link */
	struct account account; /* of places */
	struct account *descriptors;
	/* Serves the client of ARRIVAL, whose socket and closing it takes over. False: it has to wait for another turn. */
	bool (*admit)(void *userdata, struct arrival *arrival);
	void *userdata;
};

/* ARRIVALS must be all zero. Call arrivals_done() also on failure. Returns 0 or a negative errno. */
int arrivals_init(struct arrivals *arrivals, sd_event *loop, struct account *descriptors,
		  bool (*admit)(void *userdata, struct arrival *arrival), void *userdata);
void arrivals_done(struct arrivals *arrivals); /* the clients that wait are not served */
bool arrivals_are_full(const struct arrivals *arrivals);
/*
 * The client of SOCK waits for its turn. SOCK and CLOSING are taken over, also on failure: then the client is not served.
 * Returns 0; -EDQUOT: too many clients of its owner wait; or another negative errno.
 */
int arrivals_add(struct arrivals *arrivals, struct closing *closing, int sock, enum door door,
		 struct restriction *restriction);
