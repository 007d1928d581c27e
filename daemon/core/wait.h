/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Requests that wait for the fabric: for the port of an id that is being destroyed, or for the devices to be open.
 * Each is made again, from its beginning, when that may have come, and for the last time when it has waited for
 * five seconds.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/list.h"

struct session;

struct waits {
	struct list sessions; /* session.waiting */
	sd_event_source *timer; /* due with the first of them to have waited for long enough */
	unsigned max_ms;
};

/* Of a session's request. */
struct wait {
	in_port_t port; /* in network order; 0: not for a port */
	uint64_t request; /* session.last_request: which one has the deadline; 0: none has waited */
	uint64_t until_ms; /* CLOCK_MONOTONIC */
};

int waits_init(struct waits *waits, sd_event *loop);
void waits_done(struct waits *waits); /* nobody may wait any more */

/*
 * What failed with -EINPROGRESS in the fabric, for PORT, is to be tried again: returns -EINPROGRESS, for the request
 * to end in. 0: it has waited for long enough.
 */
int wait_for_fabric(struct session *session, in_port_t port);
/* See fabric_ops.can_go_on. */
void waits_go_on(struct waits *waits, in_port_t port);
/*
 * Likewise where DEVICES are being opened now: -EINPROGRESS, or STATUS_FABRIC where that takes too long. 0: they are
 * open. WHAT as in "bind".
 */
int wait_for_devices(struct session *session, const char *what);
