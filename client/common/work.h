/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Threads for calls that can block, such as those of rdmabrokerd and of munged. */

#include <systemd/sd-event.h>

#define WORK_MAX 1024 /* jobs that wait for a thread */

/* Embedded in what the job is about. The work does not free it. */
struct job {
	void (*run)(struct job *job); /* called in a thread: what it uses is the job's own */
	void (*done)(struct job *job); /* called in the loop's thread, after run() */
	struct job *prev, *next; /* work.waiting or work.finished */
};

struct work;

/* SIGTERM and SIGINT must be blocked, because the threads inherit the mask. */
int work_new(struct work **ret, sd_event *loop, unsigned n_threads);
/* Waits until the threads have ended their present jobs, and calls done() for all jobs, also for those that did not run. */
struct work *work_free(struct work *work);
/* Returns 0; -EAGAIN: WORK_MAX jobs wait, and JOB is not taken. */
int work_add(struct work *work, struct job *job);
