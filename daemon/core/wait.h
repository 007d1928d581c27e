/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Clients' requests that wait. They wait for the fabric: for the port of an id that is being destroyed, or for
 * devices that are being opened. Or a bind waits until the requests of other sessions were read that arrived before
 * it: one of them may destroy the id that has the port. A request is repeated from its beginning when it may succeed,
 * and for the last time after it has waited for five seconds for the fabric.
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
	sd_event_source *idle; /* dispatched when the loop has nothing else to do */
	unsigned max_ms;
};

/* How a session's request waits. */
struct wait {
	in_port_t port; /* in network order; 0: not for a port */
	uint64_t request; /* the session.last_request that waits, or waited last; 0: none */
	uint64_t until_ms; /* CLOCK_MONOTONIC: the deadline of that request */
	bool for_others; /* the request waits for other sessions' requests */
	uint64_t waited_for_others; /* the request that has done so, or did so last; 0: none */
};

int waits_init(struct waits *waits, sd_event *loop);
void waits_done(struct waits *waits); /* no request may wait any more */

/*
 * Makes the session's request wait for PORT, after a call of the fabric failed with -EINPROGRESS. Returns
 * -EINPROGRESS, which the verb has to return too; 0: the request's deadline has passed.
 */
int wait_for_fabric(struct session *session, in_port_t port);
/*
 * Makes the session's request wait until the loop has nothing else to do, so that all requests that arrived before it
 * were read; 100 ms at most. Returns -EINPROGRESS, which the verb has to return too; 0: the request has waited
 * already.
 */
int wait_for_others(struct session *session);
/* Resumes the requests that wait for PORT; PORT 0: all of them. See fabric_ops.can_go_on. */
void waits_go_on(struct waits *waits, in_port_t port);
/*
 * Makes the session's request wait if devices are being opened now. Returns -EINPROGRESS; STATUS_FABRIC if
 * the request's deadline has passed; 0: no device is being opened. WHAT is for messages ("bind").
 */
int wait_for_devices(struct session *session, const char *what, struct failure *failure);
