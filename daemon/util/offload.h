/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Runs jobs that can block, in a few threads.
 *
 *   offload ── group, ...        takes turns with other groups; has at most half of the threads
 *      │         └── lane, ...   one per key (an owner): its jobs run one after the other, in order
 *      └────── thread, ...       at most MAX_THREADS; a thread is started when there is work for it
 *
 * run() is called in a thread, or by offload_free(), and must access only the job. done() is called later
 * from the loop, or by offload_free(); it can free the job. All functions of this file must be called in the
 * loop's thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/list.h"

struct offload;
struct offload_lane; /* of a group of its own, unless it was prepared in another one */

struct offload_job {
	struct list link; /* offload_lane.jobs, then offload.finished */
	struct offload_lane *lane; /* NULL: not prepared */
	void (*run)(struct offload_job *job);
	void (*done)(struct offload_job *job);
};

int offload_new(struct offload **ret, sd_event *loop, unsigned max_threads);
/*
 * Limits the jobs of a lane, which count from offload_prepare() until they are released or done. Default: no
 * limit.
 */
void offload_set_limit(struct offload *offload, unsigned max_jobs_per_key);
/* Idle threads are woken a little later, once for many jobs, see hot_later(). */
void offload_set_lazy(struct offload *offload);
/*
 * Waits until the threads have run all jobs. Calls done() of all jobs, frees OFFLOAD and returns NULL. If a
 * thread has not ended after two seconds, returns OFFLOAD. Then OFFLOAD, and all that its jobs use, must stay
 * allocated until the process ends.
 */
struct offload *offload_free(struct offload *offload);

/*
 * Assigns JOB to the lane of KEY; JOB must then be submitted or released. Returns 0, -ENOMEM, or -EDQUOT at
 * the limit. -ENOMEM is not possible while another job of KEY is prepared or submitted, which keeps the lane
 * allocated.
 */
int offload_prepare(struct offload *offload, struct offload_job *job, uint64_t key);
/* The same. If KEY has no lane yet, its lane is one of GROUP. */
int offload_prepare_in_group(struct offload *offload, struct offload_job *job, uint64_t key,
			     uint64_t group);
void offload_release(struct offload_job *job); /* does nothing if JOB is not prepared */
/* JOB must be prepared, and is in use until its done() is called. Cannot fail. */
void offload_submit(struct offload *offload, struct offload_job *job);

/*
 * Waits until all jobs are done, and calls their done(). Blocks the loop, so the timeout must be short. False: jobs are
 * left after the timeout.
 */
bool offload_settle(struct offload *offload, unsigned timeout_ms);
/* The number of jobs of KEY that are prepared or submitted, and not done. */
unsigned offload_n_jobs_of(const struct offload *offload, uint64_t key);
/* The number of jobs that are submitted and not done. */
unsigned offload_n_jobs(const struct offload *offload);
