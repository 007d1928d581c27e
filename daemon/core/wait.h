/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Requests that wait for the fabric: for the port of an id that is being destroyed, or for devices that are
 * being opened. Each is repeated from its beginning when it may succeed, and for the last time after it has
 * waited for five seconds.
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
	sd_event_source *timer; /* at the earliest of their deadlines */
	unsigned max_ms;
};

/* The wait of a session's request. */
struct wait {
	in_port_t port; /* in network order; 0: not for a port */
	uint64_t request; /* the session.last_request that has the deadline; 0: none has waited */
	uint64_t until_ms; /* CLOCK_MONOTONIC */
};

int waits_init(struct waits *waits, sd_event *loop);
void waits_done(struct waits *waits); /* no request may wait any more */

/*
 * Makes the session's request wait for PORT, after a call of the fabric failed with -EINPROGRESS. Returns
 * -EINPROGRESS, which the request has to end in; 0: its deadline has passed.
 */
int wait_for_fabric(struct session *session, in_port_t port);
/* See fabric_ops.can_go_on. */
void waits_go_on(struct waits *waits, in_port_t port);
/*
 * Makes the session's request wait if devices are being opened now. Returns -EINPROGRESS; STATUS_FABRIC if
 * its deadline has passed; 0: no device is being opened. WHAT as in "bind".
 */
int wait_for_devices(struct session *session, const char *what, struct failure *failure);
