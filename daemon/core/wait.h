/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Clients' requests that wait for the fabric or for other sessions. A request waits for the fabric if it needs the
 * port of an id that is being destroyed, or while devices are being opened. A bind to a port in use waits for other
 * sessions, because a request that they have sent, but that was not read yet, can destroy the id that has the port. A
 * request is repeated from its beginning when it can go on, or when its deadline passes. A request that waits for the
 * fabric is repeated after five seconds at the latest, and then does not wait for the fabric again.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/list.h"

struct failure;
struct session;

struct waits {
	struct list sessions; /* session.waiting */
	sd_event_source *timer; /* set to the earliest deadline of these sessions */
	/* while a request waits for other sessions: dispatched when the loop is idle */
	sd_event_source *idle;
	unsigned max_ms;
};

/* How a session's request waits, or waited last. */
struct wait {
	in_port_t port; /* in network order; 0: not for a port */
	/* number (session.last_request) of the last request that waited for the fabric; 0: none */
	uint64_t request;
	uint64_t until_ms; /* CLOCK_MONOTONIC: the deadline of this wait */
	bool for_others; /* true: this wait is for other sessions; false: it is for the fabric */
	/* number of the last request that waited for other sessions; 0: none */
	uint64_t waited_for_others;
};

int waits_init(struct waits *waits, sd_event *loop);
void waits_done(struct waits *waits); /* to be called when no request waits any more */

/*
 * Makes the session's request wait for PORT, after a call of the fabric failed with -EINPROGRESS. PORT 0: the request
 * waits for devices that are being opened. Returns -EINPROGRESS, which the verb has to return too; 0: the request
 * does not wait, because its deadline has passed.
 */
int wait_for_fabric(struct session *session, in_port_t port);
/*
 * Makes the session's request wait for other sessions: until the loop is idle, and so has read all requests that
 * arrived before, but for 100 ms at most. Returns -EINPROGRESS, which the verb has to return too; 0: the request does
 * not wait, because it has waited for other sessions before.
 */
int wait_for_others(struct session *session);
/* Resumes the requests that wait for PORT; PORT 0: all requests of WAITS. See fabric_ops.can_go_on. */
void waits_go_on(struct waits *waits, in_port_t port);
/*
 * Makes the session's request wait if devices are being opened now. Returns -EINPROGRESS; STATUS_FABRIC if
 * the request's deadline has passed; 0: no device is being opened. WHAT is for messages ("bind").
 */
int wait_for_devices(struct session *session, const char *what, struct failure *failure);
