/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "core/facts/cgroup.h"
#include "core/facts/enclosure.h"
#include "core/facts/proc.h"
#include "core/facts/workload.h"
#include "util/offload.h"
#include "util/owner.h"
#include "util/util.h"

#define THREADS 2
#define LOOKUPS_PER_USER 65536
#define TRIES 3

struct workloads {
	struct offload *offload;
	/* Both are of this process, at its start. */
	bool has_cgroups; /* false: the host has no control groups, so nothing is in a container by their names */
	struct enclosure_root root;
};

struct workload_lookup {
	struct offload_job job;
	void (*done)(void *userdata, struct workload *found); /* NULL: cancelled */
	void *userdata;

	/* While the job runs, only its thread accesses these: */
	const struct workloads *workloads;
	pid_t pid;
	uid_t uid;
	struct workload found;
};

unsigned workloads_n_waiting(const struct workloads *workloads)
{
	return offload_n_jobs(workloads->offload);
}

void workload_done(struct workload *workload)
{
	for (int i = 0; i < _WORKLOAD_MAX; i++) {
		free(workload->names[i]);
		workload->names[i] = NULL;
	}
}

void workload_move(struct workload *workload, struct workload *from)
{
	workload_done(workload);
	*workload = *from;
	*from = (struct workload){ 0 };
}

/* NAME is the result R of a function of sd-login. Returns "" if the process has none, NULL if that is not known. */
static char *take_name(int r, char *name)
{
	if (r == -ENODATA || r == -ENOENT)
		return strdup("");
	return r >= 0 ? name : NULL;
}

/*
 * A machine of systemd counts as a container. Only root can make one. What runs in the machine can make control groups
 * with any name, so they do not count.
 */
static void find_names(const struct workloads *workloads, pid_t pid, struct workload *ret)
{
	struct cgroup_names names = { 0 };
	char *machine = NULL;
	int r;

	r = workloads->has_cgroups ? sd_pid_get_machine_name(pid, &machine) : -ENODATA;
	machine = take_name(r, machine);
	if (!machine)
		return;
	if (!machine[0]) {
		free(machine);
		if (workloads->has_cgroups &&
		    !cgroup_get_names(&names, ret->names[WORKLOAD_CGROUP], cgroup_owner, NULL))
			return;
		machine = strdup(names.container);
	}
	ret->names[WORKLOAD_CONTAINER] = machine;
	ret->names[WORKLOAD_POD] = strdup(names.pod);
	ret->names[WORKLOAD_JOB] = strdup(names.job);
}

static void forget(struct workload *workload, enum workload_name name)
{
	free(workload->names[name]);
	workload->names[name] = NULL;
}

/*
 * A process whose control group names no container can be in one all the same. Then it is not known in which. In a pid
 * namespace of its own it can also be in a container that its caller's unit, control group and job say nothing about.
 */
static void doubt_names(const struct workloads *workloads, pid_t pid, struct workload *ret)
{
	const char *container = ret->names[WORKLOAD_CONTAINER];
	enum enclosure enclosure;

	if (container && container[0])
		return;
	enclosure = enclosure_find(pid, &workloads->root);
	if (enclosure == ENCLOSURE_NONE)
		return;
	if (enclosure != ENCLOSURE_ROOT) {
		workload_done(ret);
		return;
	}
	forget(ret, WORKLOAD_CONTAINER);
	forget(ret, WORKLOAD_POD);
}

/* Returns -EAGAIN if the process has moved to another control group meanwhile. */
static int find(const struct workloads *workloads, pid_t pid, struct workload *ret)
{
	_cleanup_free_ char *later = NULL;
	char *unit = NULL;
	int r;

	r = sd_pid_get_cgroup(pid, &ret->names[WORKLOAD_CGROUP]);
	if (r >= 0 || !workloads->has_cgroups)
		find_names(workloads, pid, ret);
	r = sd_pid_get_unit(pid, &unit);
	ret->names[WORKLOAD_UNIT] = take_name(r, unit);
	doubt_names(workloads, pid, ret);
	if (!ret->names[WORKLOAD_CGROUP])
		return 0;
	r = sd_pid_get_cgroup(pid, &later);
	return r >= 0 && strcmp(later, ret->names[WORKLOAD_CGROUP]) == 0 ? 0 : -EAGAIN;
}

static bool has_cgroups(void)
{
	_cleanup_free_ char *own = NULL;

	return sd_pid_get_cgroup(getpid(), &own) >= 0;
}

DEFINE_CLEANUP(struct workloads *, workloads_free)

int workloads_new(struct workloads **ret, sd_event *loop)
{
	_cleanup_(workloads_freep) struct workloads *workloads = calloc(1, sizeof(*workloads));
	int r;

	if (!workloads)
		return -ENOMEM;
	r = offload_new(&workloads->offload, loop, THREADS);
	if (r < 0)
		return r;
	offload_set_limit(workloads->offload, LOOKUPS_PER_USER);
	workloads->has_cgroups = has_cgroups();
	enclosure_get_root(&workloads->root, getpid());
	*ret = TAKE_PTR(workloads);
	return 0;
}

struct workloads *workloads_free(struct workloads *workloads)
{
	if (!workloads)
		return NULL;
	offload_free(workloads->offload);
	free(workloads);
	return NULL;
}

/*
 * Whether UID is the effective user of the process; false also if that is not known. If it is not, the process has executed
 * a set-user-ID program after it had connected, for example, and this program can have moved it to a control group to
 * which UID could not, such as the session of another user.
 */
static bool is_of_user(pid_t pid, uid_t uid)
{
	unsigned effective;

	return proc_scan(pid, "status", "Uid: %*u %u", &effective) == 1 && effective == uid;
}

static void run(struct offload_job *job)
{
	struct workload_lookup *lookup = container_of(job, struct workload_lookup, job);
	int r = -EAGAIN;

	for (unsigned i = 0; i < TRIES && r == -EAGAIN; i++) {
		workload_done(&lookup->found);
		r = find(lookup->workloads, lookup->pid, &lookup->found);
	}
	/* The process does not stay in one place, or is not the client's any more. */
	if (r < 0 || !is_of_user(lookup->pid, lookup->uid))
		workload_done(&lookup->found);
}

static void on_done(struct offload_job *job)
{
	struct workload_lookup *lookup = container_of(job, struct workload_lookup, job);

	if (lookup->done)
		lookup->done(lookup->userdata, &lookup->found);
	workload_done(&lookup->found);
	free(lookup);
}

int workload_lookup_new(struct workload_lookup **ret, struct workloads *workloads, pid_t pid,
			uid_t uid, struct owner owner,
			void (*done)(void *userdata, struct workload *found), void *userdata)
{
	struct workload_lookup *lookup = calloc(1, sizeof(*lookup));
	int r;

	if (!lookup)
		return -ENOMEM;
	lookup->done = done;
	lookup->userdata = userdata;
	lookup->workloads = workloads;
	lookup->pid = pid;
	lookup->uid = uid;
	lookup->job.run = run;
	lookup->job.done = on_done;
	r = offload_prepare_in_group(workloads->offload, &lookup->job, owner.uid,
				     owner_group(owner));
	if (r < 0) {
		free(lookup);
		return r;
	}
	*ret = lookup;
	offload_submit(workloads->offload, &lookup->job);
	return -EINPROGRESS;
}

struct workload_lookup *workload_lookup_cancel(struct workload_lookup *lookup)
{
	if (lookup)
		lookup->done = NULL;
	return NULL;
}
