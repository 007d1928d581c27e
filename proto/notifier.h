/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Tells the service manager of this process what sd_notify(3) describes, from an event loop, and without ever waiting for
 * the manager. What the manager cannot take at present is queued, in order, and sent as soon as it reads:
 *
 *   notifier ── sdnotify.h's socket
 *      └─────── message, message, ...   one at most for each variable (READY, STATUS, WATCHDOG) and each stored
 *                                       descriptor, so the queue is bounded
 *
 * Without a manager, nothing is sent. NOTIFIER can be NULL: then there is none.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

struct notifier;

/* LOOP: outlives the notifier. A manager that cannot be reached is no error here. */
int notifier_new(struct notifier **ret, sd_event *loop);
/* What is queued is not sent any more. */
struct notifier *notifier_free(struct notifier *notifier);
/*
 * Calls CHANGED with true if messages have been in the queue for ten seconds, because the manager does not read; and then
 * with false when the last of them was sent.
 */
void notifier_watch(struct notifier *notifier, void (*changed)(void *userdata, bool is_stuck),
		    void *userdata);
/* Sends WATCHDOG=1 as often as the manager asks for it ($WATCHDOG_USEC). Replaces sd_event_set_watchdog(). */
int notifier_add_watchdog(struct notifier *notifier);

/* Sends "VARIABLE=VALUE", and further lines. A message in the queue that begins with the same variable is dropped. */
__attribute__((format(printf, 2, 3))) void notifier_tell(struct notifier *notifier,
							 const char *format, ...);
/* True: something is queued. */
bool notifier_is_behind(const struct notifier *notifier);
/* Waits at most MS until nothing is queued. True: nothing is. For a process that serves nobody yet, or no more. */
bool notifier_flush(struct notifier *notifier, int ms);

/*
 * The manager keeps a copy of FD under NAME, and passes it to the next process of the service. FD stays the caller's.
 * Returns 0 or a negative errno.
 */
int notifier_store(struct notifier *notifier, const char *name, int fd);
/* What is queued to be stored under NAME is not stored. */
void notifier_remove(struct notifier *notifier, const char *name);
