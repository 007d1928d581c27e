/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <systemd/sd-login.h>

#include "core/unit.h"
#include "util/offload.h"
#include "util/util.h"

#define THREADS 2
#define LOOKUPS_PER_USER 65536

struct units {
	struct offload *offload;
};

struct unit_lookup {
	struct offload_job job;
	void (*done)(void *userdata, int r, char *unit); /* NULL: cancelled */
	void *userdata;

	/* While the job runs, only its thread accesses these: */
	pid_t pid;
	char *unit;
	int r;
};

DEFINE_CLEANUP(struct units *, units_free)

int units_new(struct units **ret, sd_event *loop)
{
	_cleanup_(units_freep) struct units *units = calloc(1, sizeof(*units));
	int r;

	if (!units)
		return -ENOMEM;
	r = offload_new(&units->offload, loop, THREADS);
	if (r < 0)
		return r;
	offload_set_limit(units->offload, LOOKUPS_PER_USER);
	*ret = TAKE_PTR(units);
	return 0;
}

struct units *units_free(struct units *units)
{
	if (units)
		offload_free(units->offload);
	free(units);
	return NULL;
}

unsigned units_n_waiting(const struct units *units)
{
	return offload_n_jobs(units->offload);
}

static void run(struct offload_job *job)
{
	struct unit_lookup *lookup = container_of(job, struct unit_lookup, job);

	lookup->r = sd_pid_get_unit(lookup->pid, &lookup->unit);
}

static void on_done(struct offload_job *job)
{
	struct unit_lookup *lookup = container_of(job, struct unit_lookup, job);

	if (lookup->done)
		lookup->done(lookup->userdata, lookup->r, TAKE_PTR(lookup->unit));
	free(lookup->unit);
	free(lookup);
}

int unit_lookup_new(struct unit_lookup **ret, struct units *units, pid_t pid, uid_t uid,
		    void (*done)(void *userdata, int r, char *unit), void *userdata)
{
	struct unit_lookup *lookup = calloc(1, sizeof(*lookup));
	int r;

	if (!lookup)
		return -ENOMEM;
	lookup->done = done;
	lookup->userdata = userdata;
	lookup->pid = pid;
	lookup->job.run = run;
	lookup->job.done = on_done;
	r = offload_prepare(units->offload, &lookup->job, uid);
	if (r < 0) {
		free(lookup);
		return r;
	}
	*ret = lookup;
	offload_submit(units->offload, &lookup->job);
	return -EINPROGRESS;
}

struct unit_lookup *unit_lookup_cancel(struct unit_lookup *lookup)
{
	if (lookup)
		lookup->done = NULL;
	return NULL;
}
