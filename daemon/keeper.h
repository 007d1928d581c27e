/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Keeps sessions and connections while the daemon is restarted. What the daemon needs for that is in the store of
 * systemd (keep/store.h): the file of the connection manager, the ledger, and the vault with the clients' sockets. The
 * next process takes them over before it serves clients:
 *
 *   keeper_new()        reads the old ledger, begins a new one
 *   keeper_inherit()    waits until the devices can be used, and moves the kernel's ids to a file of this process
 *   keeper_take_over()  makes the sessions and ids anew, and removes what the previous process has stored
 *
 * If one of these steps fails, the daemon starts clean: the sessions end, as they do without a store.
 */

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

struct core;
struct keeper;
struct notifier;
struct server;

int keeper_new(struct keeper **ret, struct core *core, struct notifier *notifier);
struct keeper *keeper_free(struct keeper *keeper);
/* The number of descriptors that the previous process has left. */
unsigned keeper_count_stored(const struct keeper *keeper);
/* Runs LOOP until the devices can be used, for some seconds at most. */
void keeper_inherit(struct keeper *keeper, sd_event *loop);
void keeper_take_over(struct keeper *keeper, struct server *server);
/*
 * To be called when the daemon is asked to end. True: another process will take over, so sessions and ids have to be
 * left as they are. False: nothing is kept, or the service is being stopped, so all has to be ended.
 */
bool keeper_is_succeeded(const struct keeper *keeper);
/* Removes all from the store. To be called before all is ended. */
void keeper_forget(struct keeper *keeper);
