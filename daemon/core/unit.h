/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Looks up the systemd unit of a process. A thread does this, because the kernel takes the lock of all control
 * groups, which other processes can hold for a long time.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

struct units;
struct unit_lookup;

int units_new(struct units **ret, sd_event *loop);
struct units *units_free(struct units *units);
/* The number of pending look-ups, including cancelled ones. */
unsigned units_n_waiting(const struct units *units);

/*
 * Returns -EINPROGRESS: DONE will be called from the loop with the result of sd_pid_get_unit(), and owns UNIT; or
 * another negative errno. The look-ups for one UID run one after the other.
 */
int unit_lookup_new(struct unit_lookup **ret, struct units *units, pid_t pid, uid_t uid,
		    void (*done)(void *userdata, int r, char *unit), void *userdata);
/* DONE will not be called. Takes NULL; returns NULL. */
struct unit_lookup *unit_lookup_cancel(struct unit_lookup *lookup);
