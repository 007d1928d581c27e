/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What is left of a session whose client has lost its socket. Many programs close all descriptors that they did not
 * open themselves, the library's among them, and then go on to use the device. The daemon sees a hang-up, as at a
 * client's end.
 *
 * So if a client with leases hangs up without a Goodbye, and its process lives, the session lingers: it has no socket
 * and no ids, but keeps its leases, and stays charged to its user. It ends
 *
 *   - when the process opens its next session, which gets the leases;
 *   - when the process ends, or ResumeTimeoutSec= is over;
 *   - when policy or an admin ends it, and when the daemon is restarted.
 *
 * A process has at most one session that lingers; it has the leases of all. Processes that could not be identified have
 * none.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "util/crowd.h"
#include "util/list.h"

struct core;
struct lingering;
struct session;

struct lingers {
	struct list list; /* lingering.link, in the order of their ends */
	struct lingering *by_pid; /* a uthash table */
	struct crowd crowd; /* the processes */
	sd_event_source *timer;
};

int lingers_init(
	struct core *core); /* 0 or a negative errno; call lingers_done() also on failure */
void lingers_done(struct core *core);
/*
 * SESSION's client has hung up, and all ids are freed. True: the session lingers, and is freed by this module; false:
 * it still is the caller's.
 */
bool linger_begin(struct session *session);
/* SESSION is a new one: it gets the leases that its process has left. True: there was a session, which has ended. */
bool linger_resume(struct session *session);
/* True: SESSION's process has left leases, which linger_resume() would give it. */
bool linger_has_leases_for(struct session *session);
