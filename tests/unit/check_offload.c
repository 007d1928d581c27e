/* SPDX-License-Identifier: BSD-2-Clause */

/* Waiting for the jobs of threads, with an end. */

#include <pthread.h>
#include <semaphore.h>
#include <systemd/sd-event.h>

#include "tests/unit/unit.h"
#include "util/clock.h"
#include "util/hot.h"
#include "util/offload.h"
#include "util/util.h"

#define JOBS 20

static sd_event *loop;
static struct offload *offload;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* a test holds it to make the jobs wait */
static struct offload_job jobs[JOBS];
static pthread_t loops_thread;
static unsigned n_done;

static void run(struct offload_job *job)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

static void on_done(struct offload_job *job)
{
	ck_assert(pthread_equal(pthread_self(), loops_thread));
	n_done++;
}

static void set_up(void)
{
	loops_thread = pthread_self();
	n_done = 0;
	ck_assert_int_ge(sd_event_new(&loop), 0);
	ck_assert_int_eq(offload_new(&offload, loop, 4), 0);
	for (unsigned i = 0; i < JOBS; i++) {
		jobs[i] = (struct offload_job){ .run = run, .done = on_done };
		ck_assert_int_eq(offload_prepare(offload, &jobs[i], i % 3), 0);
	}
}

static void tear_down(void)
{
	ck_assert_ptr_null(offload_free(offload));
	sd_event_unref(loop);
}

static void submit_all(void)
{
	for (unsigned i = 0; i < JOBS; i++)
		offload_submit(offload, &jobs[i]);
}

START_TEST(all_jobs_are_awaited)
{
	submit_all();
	ck_assert(offload_settle(offload, 20000));
	ck_assert_uint_eq(n_done, JOBS);
	/* There is nothing to wait for. */
	ck_assert(offload_settle(offload, 20000));
}
END_TEST

START_TEST(the_wait_ends)
{
	uint64_t begin = clock_ms();

	pthread_mutex_lock(&gate);
	submit_all();
	ck_assert(!offload_settle(offload, 50));
	ck_assert_uint_ge(clock_ms() - begin, 50);
	ck_assert_uint_eq(n_done, 0);
	pthread_mutex_unlock(&gate);
	ck_assert(offload_settle(offload, 20000));
	ck_assert_uint_eq(n_done, JOBS);
}
END_TEST

/* The threads are idle, and are woken when nothing else is ready, or when somebody waits. */
START_TEST(jobs_that_are_not_urgent)
{
	struct hot *hot = hot_ref(loop);

	offload_set_lazy(offload);
	ck_assert_int_eq(hot_be_host(hot), 0);
	submit_all();
	while (n_done < JOBS)
		ck_assert_int_ge(hot_run(hot, PATIENCE_MS), 0);
	for (unsigned i = 0; i < JOBS; i++) {
		ck_assert_int_eq(offload_prepare(offload, &jobs[i], i % 3), 0);
		offload_submit(offload, &jobs[i]);
	}
	ck_assert(offload_settle(offload, PATIENCE_MS));
	ck_assert_uint_eq(n_done, 2 * JOBS);
	hot_unref(hot);
}
END_TEST

/* A job that does not return until the test ends it. */
struct stuck {
	struct offload_job job;
	sem_t *ends;
};

static void run_stuck(struct offload_job *job)
{
	sem_wait(container_of(job, struct stuck, job)->ends);
}

/* The lanes of a group, however many there are, leave half of the threads to others. */
START_TEST(a_group_leaves_threads_to_others)
{
	struct stuck stuck[10];
	struct offload_job other = { .run = run, .done = on_done };
	sem_t ends;

	sem_init(&ends, 0, 0);
	submit_all();
	ck_assert(offload_settle(offload, 20000));
	n_done = 0;
	for (unsigned i = 0; i < 10; i++) {
		stuck[i] = (struct stuck){ .job = { .run = run_stuck, .done = on_done },
					   .ends = &ends };
		ck_assert_int_eq(offload_prepare_in_group(offload, &stuck[i].job, 100 + i, 100000),
				 0);
		offload_submit(offload, &stuck[i].job);
	}
	ck_assert_int_eq(offload_prepare(offload, &other, 1), 0);
	offload_submit(offload, &other);
	while (n_done == 0)
		ck_assert_int_ge(sd_event_run(loop, UINT64_MAX), 0);
	ck_assert_uint_eq(offload_n_jobs(offload), 10);
	for (unsigned i = 0; i < 10; i++)
		sem_post(&ends);
	ck_assert(offload_settle(offload, 20000));
	ck_assert_uint_eq(n_done, 11);
	sem_destroy(&ends);
}
END_TEST

UNIT_MAIN("offload", set_up, tear_down, all_jobs_are_awaited, the_wait_ends,
	  jobs_that_are_not_urgent, a_group_leaves_threads_to_others)
