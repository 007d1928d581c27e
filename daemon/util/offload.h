/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Work that can block, done off the event loop by a few threads.
 *
 *   offload ── lane, lane, ...   one per key (a user): its jobs run one after the other, in order
 *      └────── thread, ...       at most as many as were said at the start, made when there is work
 *
 * A job that does not return holds up its own lane and one thread. A job's run() is called in a thread and
 * may touch nothing but the job; its done() is called from the loop, never from within offload_submit(), and
 * may free the job. All else is for the loop's thread only.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/list.h"

struct offload;
struct offload_lane;

struct offload_job {
	struct list link; /* offload_lane.jobs, then offload.finished */
	struct offload_lane *lane; /* NULL: not prepared */
	void (*run)(struct offload_job *job);
	void (*done)(struct offload_job *job);
};

int offload_new(struct offload **ret, sd_event *loop, unsigned max_threads);
/* A lane has so many jobs at most that are prepared, or submitted and not done. Without this: any number. */
void offload_set_limit(struct offload *offload, unsigned max_jobs_per_key);
/*
 * Waits for what runs, for two seconds at most, and then carries out what is left. Returns NULL; or OFFLOAD where a
 * thread is stuck: it stays as it is, with all that its jobs need, for the process is about to end.
 */
struct offload *offload_free(struct offload *offload);

/* JOB will be of the lane of KEY. 0, -ENOMEM, or -EDQUOT at the limit. A prepared job is submitted or released. */
int offload_prepare(struct offload *offload, struct offload_job *job, uint64_t key);
void offload_release(struct offload_job *job); /* may be called on a job that is not prepared */
/* JOB was prepared, and is in use until its done() is called. This cannot fail. */
void offload_submit(struct offload *offload, struct offload_job *job);

/* Jobs that were submitted and whose done() was not called yet. */
unsigned offload_n_jobs(const struct offload *offload);
