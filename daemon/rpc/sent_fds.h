/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Descriptors in flight: sent to a client, and not received by it yet. The kernel counts them against the
 * sender, which is the daemon, and beyond RLIMIT_NOFILE it lets the daemon send no descriptor to anybody. So
 * each one is charged to the client's user until it is received. The only sign that the client has received
 * it is an empty send queue of the socket. A hang-up is no sign, because a client can peek at a packet, hang
 * up and leave the packet in the queue. So if the session ends while descriptors are in flight, its socket is
 * kept open until they are received.
 */

#include <systemd/sd-event.h>

#include "core/object/session.h"
#include "util/closer.h"
#include "util/list.h"

struct sent_fds;

struct sent_fds_list {
	struct list list; /* sent_fds.link */
	sd_event_source *timer; /* a timer, runs while LIST has entries */
};

int sent_fds_list_init(struct sent_fds_list *sent_fds_list, sd_event *loop);
/* Stops waiting for the descriptors in flight: ends their charges, and closes the sockets of ended sessions. */
void sent_fds_list_done(struct sent_fds_list *sent_fds_list);

/*
 * To be called before a descriptor is sent over SOCK: charges it to SESSION's user. If *SENT_FDS is NULL, creates it.
 * Returns 0, STATUS_QUOTA that FAILURE explains, or a negative errno.
 */
int sent_fds_add(struct sent_fds **sent_fds, struct sent_fds_list *sent_fds_list,
		 struct session *session, int sock, struct failure *failure);
/*
 * HOLD true: the daemon has queued descriptors, which count as in flight although they are not in the socket's send
 * queue yet; false: it has queued none. SENT_FDS may be NULL.
 */
void sent_fds_hold(struct sent_fds *sent_fds, bool hold);
/*
 * To be called when the session ends. Takes over SENT_FDS and CLOSING, which has the socket. CLOSING closes the socket
 * once all descriptors have been received; if SENT_FDS is NULL, at once.
 */
void sent_fds_land(struct sent_fds *sent_fds, struct closing *closing);
