/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The names in the path of a control group: of the container, the pod and the job that its processes belong to.
 *
 *   /machine.slice/libpod-ID.scope/container            podman
 *   /a.service/libpod-payload-ID                        podman with --cgroups=split, as Quadlet uses it
 *   /system.slice/docker-ID.scope, /docker/ID, /any/ID  Docker, nerdctl
 *   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope
 *   /kubepods/burstable/podUID/ID, .../crio-ID          Kubernetes
 *   /lxc.payload.NAME, /lxc/NAME                        LXC
 *   /system.slice/slurmstepd.scope/job_NUMBER/step_0    Slurm
 *
 * A name counts only as far as its user could not choose it. Directories of the hierarchy belong to root, or to the
 * user to whom a part of the hierarchy is delegated, such as the user of user@UID.service. Below such a directory,
 * the user can make control groups with any name. So names from there begin with "user-UID/".
 *
 * Below a container no name counts, because the processes of the container may have chosen it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* An owner that is not known: the directory has gone, or other users too can create directories in it. */
#define CGROUP_NO_OWNER ((uid_t)-1)

/* "user-UID/", 64 digits and the terminating NUL */
#define CGROUP_NAME_SIZE 96

/* "": in none */
struct cgroup_names {
	char container[CGROUP_NAME_SIZE];
	char pod[CGROUP_NAME_SIZE];
	char job[CGROUP_NAME_SIZE];
};

/* Returns who can create directories in the directory that the first LEN bytes of PATH name. */
typedef uid_t (*cgroup_owner_fn)(void *userdata, const char *path, size_t len);

/* False: PATH has such names, but it is not known who has chosen them. */
bool cgroup_get_names(struct cgroup_names *ret, const char *path, cgroup_owner_fn owner,
		      void *userdata);
/*
 * The user who owns a directory in the kernel's hierarchy, for cgroup_get_names(). The call can wait for locks that
 * other processes hold. USERDATA is not used.
 */
uid_t cgroup_owner(void *userdata, const char *path, size_t len);
