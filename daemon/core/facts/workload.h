/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Looks up what a process belongs to: its systemd unit, its control group, and the container, pod and job that the
 * path of the control group names (see cgroup.h), unless it can be in a container that no name tells (enclosure.h). On
 * a host without control groups, nobody is in a container by name. A thread does this, because the kernel takes the
 * lock of all control groups, which other processes can hold for a long time.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "proto/names.h"
#include "util/owner.h"

/* By enum workload_name. "": the process belongs to none; NULL: not known. */
struct workload {
	char *names[_WORKLOAD_MAX];
};

struct workloads;
struct workload_lookup;

int workloads_new(struct workloads **ret, sd_event *loop);
struct workloads *workloads_free(struct workloads *workloads);
/* The number of pending look-ups, including cancelled ones. */
unsigned workloads_n_waiting(const struct workloads *workloads);

/* Takes the names in FROM, which has none afterwards. */
void workload_move(struct workload *workload, struct workload *from);
void workload_done(struct workload *workload);

/*
 * Returns -EINPROGRESS: DONE will be called from the loop, and can take the names in FOUND. Or another negative errno.
 * FOUND is true of PID only if PID is still the same process. If UID is not its effective user, nothing is known. The
 * look-ups for OWNER, who answers for UID, run one after the other.
 */
int workload_lookup_new(struct workload_lookup **ret, struct workloads *workloads, pid_t pid,
			uid_t uid, struct owner owner,
			void (*done)(void *userdata, struct workload *found), void *userdata);
/* DONE will not be called. Takes NULL; returns NULL. */
struct workload_lookup *workload_lookup_cancel(struct workload_lookup *lookup);
