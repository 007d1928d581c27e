/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Clients' requests that wait for the fabric: for the port of an id that is being destroyed, or for devices
 * that are being opened. A request is repeated from its beginning when it may succeed, and for the last time
 * after it has waited for five seconds.
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
	unsigned max_ms;
};

/* How a session's request waits. */
struct wait {
	in_port_t port; /* in network order; 0: not for a port */
	uint64_t request; /* the session.last_request that waits, or waited last; 0: none */
	uint64_t until_ms; /* CLOCK_MONOTONIC: the deadline of that request */
};

int waits_init(struct waits *waits, sd_event *loop);
void waits_done(struct waits *waits); /* no request may wait any more */

/*
 * Makes the session's request wait for PORT, after a call of the fabric failed with -EINPROGRESS. Returns
 * -EINPROGRESS, which the verb has to return too; 0: the request's deadline has passed.
 */
int wait_for_fabric(struct session *session, in_port_t port);
/* Resumes the requests that wait for PORT; PORT 0: all of them. See fabric_ops.can_go_on. */
void waits_go_on(struct waits *waits, in_port_t port);
/*
 * Makes the session's request wait if devices are being opened now. Returns -EINPROGRESS; STATUS_FABRIC if
 * the request's deadline has passed; 0: no device is being opened. WHAT is for messages ("bind").
 */
int wait_for_devices(struct session *session, const char *what, struct failure *failure);
