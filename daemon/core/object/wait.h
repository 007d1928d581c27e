/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Clients' requests that wait. A request waits for the fabric if its port belongs to an id that is being destroyed,
 * or while devices are being opened. One that is a lot of work is done in slices. A bind to a port in use waits for other sessions, because one of their unread
 * requests can free the port. A request is repeated from its beginning when it can go on, or at its deadline.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/list.h"

struct failure;
struct session;

struct hot;

struct waits {
	struct list sessions; /* session.waiting */
	sd_event_source *timer; /* set to the earliest deadline of SESSIONS */
	/* dispatched when the loop is idle; enabled while a request waits for other sessions */
	sd_event_source *idle;
	struct hot *hot; /* of the loop */
	unsigned max_ms;
	struct list in_slices; /* session.waiting, see wait_for_turn() */
	sd_event_source *next_turn; /* timer that is due at once, while IN_SLICES has entries */
};

/* How a session's request waits, or waited last. */
struct wait {
	in_port_t port; /* in network order; 0: not for a port */
	uint64_t request; /* session.request of the last wait for the fabric; 0: none */
	uint64_t until_ms; /* CLOCK_MONOTONIC: the deadline of this wait */
	bool for_others; /* this wait is for other sessions, not for the fabric */
	/* session.request of the last wait for other sessions; 0: none */
	uint64_t waited_for_others;
};

int waits_init(struct waits *waits, sd_event *loop);
void waits_done(struct waits *waits); /* to be called when no request waits any more */

/*
 * Makes the session's request wait for PORT (0: for devices that are being opened). Returns -EINPROGRESS, which the
 * verb has to return too, or 0: the request's deadline has passed.
 */
int wait_for_fabric(struct session *session, in_port_t port);
/*
 * Makes the session's request wait until the loop is idle, and so has read the requests that arrived before, but for
 * 100 ms at most. Returns -EINPROGRESS, which the verb has to return too, or 0: the request has waited for others
 * before.
 */
int wait_for_others(struct session *session);
/*
 * Makes the session's request wait for a later turn of the loop, because it is more work than one turn should do. Returns
 * -EINPROGRESS or another negative errno.
 */
int wait_for_turn(struct session *session);
/* Resumes the requests that wait for PORT; PORT 0: all requests of WAITS. See fabric_ops.can_go_on. */
void waits_go_on(struct waits *waits, in_port_t port);
/*
 * Makes the session's request wait if devices are being opened. Returns 0: none are; -EINPROGRESS; or STATUS_FABRIC:
 * the request's deadline has passed. WHAT is for messages ("bind").
 */
int wait_for_devices(struct session *session, const char *what, struct failure *failure);
