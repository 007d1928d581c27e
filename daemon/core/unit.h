/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Which systemd unit a process is in, asked by a thread: the kernel takes the lock of all control groups to tell, which
 * others can hold for long.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

struct units;
struct unit_lookup;

int units_new(struct units **ret, sd_event *loop);
struct units *units_free(struct units *units);
/* Questions that were not answered yet, those that nobody wants the answer of included. */
unsigned units_n_waiting(const struct units *units);

/*
 * For UID, whose questions are asked one after the other. -EINPROGRESS: the answer goes to DONE, from the loop, as
 * sd_pid_get_unit() gives it; UNIT is the callee's. Another negative errno: it was not asked.
 */
int unit_lookup_new(struct unit_lookup **ret, struct units *units, pid_t pid, uid_t uid,
		    void (*done)(void *userdata, int r, char *unit), void *userdata);
/* Nobody wants to know any more. Takes NULL; returns NULL. */
struct unit_lookup *unit_lookup_cancel(struct unit_lookup *lookup);
