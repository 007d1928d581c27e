/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Whether a process is shut in, so that it can be in a container whose name its control group does not tell:
 * `podman run --cgroups=disabled` leaves a container in the control group of its caller. The kernel tells everybody the
 * pid namespaces of a process, and what is mounted at its root directory.
 */

#include <stdbool.h>
#include <sys/types.h>

/* The first part of a process's mount at "/": "8:1 /" has the numbers of the device and the directory on it. */
struct enclosure_root {
	char text[256]; /* empty: not known */
};

enum enclosure {
	ENCLOSURE_NONE,
	ENCLOSURE_ROOT, /* another root directory: a container, a chroot, or a service with RootDirectory= */
	ENCLOSURE_PIDS, /* a pid namespace below this process's: a container, most likely */
	ENCLOSURE_UNKNOWN, /* the process has ended, or /proc does not show it */
};

void enclosure_get_root(struct enclosure_root *ret, pid_t pid);
/* OWN is the root of a process that is not shut in. Can take the locks of the process's memory: for threads. */
enum enclosure enclosure_find(pid_t pid, const struct enclosure_root *own);
