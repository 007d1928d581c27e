/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Keeps sessions and connections while the daemon is restarted. What the daemon needs for that is in the store of
 * systemd (takeover/fdstore.h): the file of the connection manager, the ledger, and the socket store with the clients'
 * sockets. The next process takes them over before it serves clients:
 *
 *   takeover_new()         reads the old ledger, begins a new one
 *   takeover_kernel_ids()  waits until the devices can be used, and moves the kernel's ids to a file of this process
 *   takeover_sessions()    makes the sessions and ids anew, and removes what the previous process has stored
 *
 * If one of these steps fails, the daemon starts clean: the sessions end, as they do without a store.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

struct core;
struct takeover;
struct notifier;
struct server;

int takeover_new(struct takeover **ret, struct core *core, struct notifier *notifier);
struct takeover *takeover_free(struct takeover *takeover);
/* The number of descriptors that the previous process has left. */
unsigned takeover_count_stored(const struct takeover *takeover);
/* Runs LOOP until the devices can be used, for some seconds at most. */
void takeover_kernel_ids(struct takeover *takeover, sd_event *loop);
void takeover_sessions(struct takeover *takeover, struct server *server);
/*
 * To be called when the daemon is asked to end. True: another process will take over, so sessions and ids have to be
 * left as they are. False: nothing is kept, or the service is being stopped, so all has to be ended.
 */
bool takeover_is_expected(const struct takeover *takeover);
/* Removes all from the store. To be called before all is ended. */
void takeover_forget(struct takeover *takeover);
