/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "core/object/quota.h"
#include "rpc/flight.h"
#include "util/util.h"

#define LOOK_USEC (100 * 1000ULL)
#define BATCH 256 /* at most this many flights are checked each time the timer expires */

struct flight {
	struct list link; /* flights.list, while descriptors are in flight */
	struct flights *flights;
	int sock;
	struct charge charge; /* for the descriptors in flight */
	bool held; /* see flight_hold() */
	/* closes SOCK when all descriptors have been received; NULL: the session still exists */
	struct closing *closing;
};

static bool has_arrived(const struct flight *flight)
{
	int n_bytes;

	/* If the socket cannot be queried, do not wait for it. */
	return !flight->held && (ioctl(flight->sock, SIOCOUTQ, &n_bytes) < 0 || n_bytes == 0);
}

static void arrive(struct flight *flight)
{
	list_remove(&flight->link);
	charge_done(&flight->charge);
	if (!flight->closing)
		return;
	closing_go(flight->closing);
	free(flight);
}

/* A running timer is not restarted: if it were, frequent calls would keep it from ever expiring. */
static void run(struct flights *flights)
{
	if (sd_event_source_get_enabled(flights->timer, NULL) != 0)
		return;
	sd_event_source_set_time_relative(flights->timer, LOOK_USEC);
	sd_event_source_set_enabled(flights->timer, SD_EVENT_ONESHOT);
}

/* The flights that were checked move to the end of the list, so that each gets its turn. */
static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct flights *flights = userdata;
	struct list looked_at, *l;

	list_init(&looked_at);
	for (unsigned i = 0; i < BATCH && (l = list_first(&flights->list)); i++) {
		struct flight *flight = container_of(l, struct flight, link);

		list_remove(l);
		list_insert(&looked_at, l);
		if (has_arrived(flight))
			arrive(flight);
	}
	while ((l = list_first(&looked_at))) {
		list_remove(l);
		list_insert(&flights->list, l);
	}
	if (!list_is_empty(&flights->list))
		run(flights);
	return 0;
}

int flights_init(struct flights *flights, sd_event *loop)
{
	int r;

	list_init(&flights->list);
	r = sd_event_add_time_relative(loop, &flights->timer, CLOCK_MONOTONIC, LOOK_USEC, 0,
				       on_timer, flights);
	if (r >= 0)
		r = sd_event_source_set_enabled(flights->timer, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

void flights_done(struct flights *flights)
{
	struct list *l;

	while ((l = list_first(&flights->list)))
		arrive(container_of(l, struct flight, link));
	flights->timer = sd_event_source_disable_unref(flights->timer);
}

static int flight_new(struct flight **ret, struct flights *flights, int sock)
{
	struct flight *flight = calloc(1, sizeof(*flight));

	if (!flight)
		return -ENOMEM;
	flight->flights = flights;
	flight->sock = sock;
	list_init(&flight->link);
	*ret = flight;
	return 0;
}

int flight_add(struct flight **ret, struct flights *flights, struct session *session, int sock,
	       struct failure *failure)
{
	struct charge one = { 0 };
	struct flight *flight;
	int r = 0;

	if (!*ret)
		r = failure_errno(failure, flight_new(ret, flights, sock));
	if (r < 0)
		return r;
	flight = *ret;
	if (flight->charge.account && has_arrived(flight))
		arrive(flight);
	r = quota_charge(session, &one, ACCOUNT_FDS, 1, failure);
	if (r != 0)
		return r;
	if (flight->charge.account) {
		charge_grow(&flight->charge, 1);
		charge_done(&one);
		return 0;
	}
	flight->charge = one;
	list_insert(&flights->list, &flight->link);
	run(flights);
	return 0;
}

void flight_hold(struct flight *flight, bool hold)
{
	if (flight)
		flight->held = hold;
}

struct flight *flight_land(struct flight *flight, struct closing *closing)
{
	if (!flight) {
		closing_go(closing);
		return NULL;
	}
	flight->closing = closing;
	flight->held = false;
	if (!flight->charge.account || has_arrived(flight))
		arrive(flight);
	return NULL;
}
