/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Descriptors in flight to a client. The kernel counts descriptors that were sent and not received yet
 * against the sender, which is the daemon. Beyond RLIMIT_NOFILE it lets the daemon send none to anybody. So
 * each one is charged to the client's user until it was received. The only sign of that is an empty send
 * queue of the socket. A hang-up is no sign, because a client can peek at a packet, hang up and leave the
 * packet in the queue. If the session ends earlier, its socket is kept open until then.
 */

#include <systemd/sd-event.h>

#include "core/session.h"
#include "util/closer.h"
#include "util/list.h"

struct flight;

struct flights {
	struct list list; /* flight.link */
	sd_event_source *timer; /* runs while there is one */
};

int flights_init(struct flights *flights, sd_event *loop);
void flights_done(struct flights *flights); /* gives up those that are still in flight */

/*
 * Charges one more descriptor, which is to be sent to SESSION over SOCK. Creates *FLIGHT if it is NULL.
 * Returns 0, STATUS_QUOTA that FAILURE explains, or a negative errno.
 */
int flight_add(struct flight **flight, struct flights *flights, struct session *session, int sock,
	       struct failure *failure);
/* HOLD: descriptors wait to be sent. They count as in flight although the socket does not have them yet. */
void flight_hold(struct flight *flight, bool hold);
/*
 * The session ends. CLOSING has the socket, and closes it once everything has been received: at once if
 * FLIGHT is NULL. Returns NULL.
 */
struct flight *flight_land(struct flight *flight, struct closing *closing);
