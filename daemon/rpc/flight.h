/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Descriptors on their way to a client. The kernel counts those that were sent and not received yet for the
 * sender, which is the daemon, and past RLIMIT_NOFILE lets it send none to anybody. So each is charged to the
 * client's user until it was received. That shows in the socket alone: everything that was sent is gone from
 * it. A hang-up shows nothing, for a client can look at a packet, hang up and leave it where it is. Where a
 * session ends before, its socket is kept open until then.
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
void flights_done(struct flights *flights); /* gives up those that are left */

/*
 * One more descriptor is to be sent to SESSION over SOCK. *FLIGHT is made if it is NULL. 0, STATUS_QUOTA with
 * the session's failure set, or a negative errno.
 */
int flight_add(struct flight **flight, struct flights *flights, struct session *session, int sock);
/* Descriptors that wait to be sent are on their way all the same, whatever the socket says. */
void flight_hold(struct flight *flight, bool hold);
/*
 * The session ends. CLOSING has the socket, and is closed once everything has been received: at once where
 * FLIGHT is NULL. Returns NULL.
 */
struct flight *flight_land(struct flight *flight, struct closing *closing);
