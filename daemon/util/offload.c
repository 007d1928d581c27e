/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "proto/timer.h"
#include "util/clock.h"
#include "util/hot.h"
#include "util/keyed.h"
#include "util/log.h"
#include "util/offload.h"
#include "util/util.h"

#define IDLE_SECONDS 10 /* then a thread without work ends */
#define END_SECONDS 2
#define RETRY_USEC (1 * 1000000ULL)
#define STACK_SIZE (256 * 1024)

struct offload_group {
	struct keyed
		keyed; /* offload.groups; each lane has a reference; only the loop's thread uses it */
	struct offload *offload;
	/* in offload.ready, while lanes are ready, and threads are left for the group */
	struct list link;
	struct list ready; /* offload_lane.link */
	unsigned n_running; /* lanes */
};

struct offload_lane {
	/* offload.lanes; each job that is prepared or submitted has a reference; only the loop's thread uses it */
	struct keyed keyed;
	struct offload_group *group;
	struct list link; /* offload_group.ready, while jobs wait and none runs */
	struct list jobs; /* offload_job.link: jobs that wait */
	bool runs;
};

struct offload {
	/* Only the loop's thread uses these: */
	struct hot *hot;
	struct hot_io io; /* watches WAKE */
	struct keyed *lanes; /* offload_lane.keyed */
	struct keyed *groups; /* offload_group.keyed */
	unsigned n_jobs;
	unsigned max_jobs_per_key;
	int wake; /* an eventfd */
	/* timer that tries again to start a thread */
	sd_event_source *retry;
	struct ratelimit log_limit;
	bool is_lazy; /* see offload_set_lazy() */
	struct hot_later later; /* wakes threads */
	unsigned n_later; /* lanes for which threads are to be woken */

	/* protects the members below, LINK, JOBS and RUNS of lanes, and LINK, READY and N_RUNNING of groups */
	pthread_mutex_t lock;
	pthread_cond_t work; /* a lane is ready, or ENDING is set */
	pthread_cond_t ended; /* a thread has ended */
	struct list ready; /* offload_group.link */
	unsigned n_ready; /* lanes */
	struct list finished; /* offload_job.link */
	unsigned n_idle; /* threads that wait for work */
	unsigned n_threads, max_threads;
	bool ending;
	bool has_last; /* a thread has ended; it joins the one that has ended before it */
	pthread_t last; /* the thread that has ended last, which nobody has joined */
};

static void deadline_in(struct timespec *ret, unsigned seconds)
{
	clock_gettime(CLOCK_MONOTONIC, ret);
	ret->tv_sec += seconds;
}

/* The group goes behind the others, if it has more to do. */
static void queue_group(struct offload_group *group)
{
	unsigned max = group->offload->max_threads - group->offload->max_threads / 2;

	list_remove(&group->link);
	if (!list_is_empty(&group->ready) && group->n_running < max)
		list_insert(&group->offload->ready, &group->link);
}

static struct offload_lane *next_lane(struct offload *offload)
{
	struct list *l = list_first(&offload->ready);
	struct offload_group *group;

	if (!l)
		return NULL;
	group = container_of(l, struct offload_group, link);
	l = list_first(&group->ready);
	list_remove(l);
	offload->n_ready--;
	group->n_running++;
	queue_group(group);
	return container_of(l, struct offload_lane, link);
}

static void make_ready(struct offload *offload, struct offload_lane *lane)
{
	list_insert(&lane->group->ready, &lane->link);
	offload->n_ready++;
	if (list_is_empty(&lane->group->link))
		queue_group(lane->group);
}

/* False: there was no work for IDLE_SECONDS, or the threads are to end. */
static bool await_work(struct offload *offload)
{
	struct timespec deadline;
	int r = 0;

	deadline_in(&deadline, IDLE_SECONDS);
	offload->n_idle++;
	while (list_is_empty(&offload->ready) && !offload->ending && r == 0)
		r = pthread_cond_timedwait(&offload->work, &offload->lock, &deadline);
	offload->n_idle--;
	return !list_is_empty(&offload->ready);
}

/* Called with the lock held; releases it while the job runs. */
static void run_job(struct offload *offload, struct offload_lane *lane)
{
	struct offload_job *job = container_of(list_first(&lane->jobs), struct offload_job, link);
	const uint64_t one = 1;
	bool is_first;
	ssize_t n;

	list_remove(&job->link);
	lane->runs = true;
	pthread_mutex_unlock(&offload->lock);
	job->run(job);
	pthread_mutex_lock(&offload->lock);
	lane->runs = false;
	lane->group->n_running--;
	if (!list_is_empty(&lane->jobs))
		make_ready(offload, lane);
	else if (list_is_empty(&lane->group->link))
		queue_group(lane->group);
	is_first = list_is_empty(&offload->finished);
	list_insert(&offload->finished, &job->link);
	/* The loop takes all that have finished at once, so only the first one wakes it. */
	if (!is_first)
		return;
	/* Not under the lock, for which the loop would have to wait. The counter never comes near its maximum. */
	pthread_mutex_unlock(&offload->lock);
	n = write(offload->wake, &one, sizeof(one));
	(void)n;
	pthread_mutex_lock(&offload->lock);
}

static void *work(void *arg)
{
	struct offload *offload = arg;
	struct offload_lane *lane;
	pthread_t before;
	bool has_before;

	pthread_mutex_lock(&offload->lock);
	for (;;) {
		lane = next_lane(offload);
		if (lane)
			run_job(offload, lane);
		else if (offload->ending || !await_work(offload))
			break;
	}
	offload->n_threads--;
	before = offload->last;
	has_before = offload->has_last;
	offload->last = pthread_self();
	offload->has_last = true;
	pthread_cond_signal(&offload->ended);
	pthread_mutex_unlock(&offload->lock);
	/* From here on OFFLOAD can be freed. */
	if (has_before)
		pthread_join(before, NULL);
	return NULL;
}

static int start_thread(struct offload *offload)
{
	pthread_t thread;
	pthread_attr_t attr;
	sigset_t all, before;
	int r;

	/* Block all signals in the thread: the event loop handles them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	r = pthread_create(&thread, &attr, work, offload);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

/*
 * If no thread can be started, the work waits for a busy thread. All busy threads can be stuck, so a timer
 * tries again.
 */
static void add_thread(struct offload *offload)
{
	int r;

	pthread_mutex_lock(&offload->lock);
	offload->n_threads++;
	pthread_mutex_unlock(&offload->lock);
	r = start_thread(offload);
	if (r == 0)
		return;
	pthread_mutex_lock(&offload->lock);
	offload->n_threads--;
	pthread_mutex_unlock(&offload->lock);
	timer_start(offload->retry, RETRY_USEC);
	log_limited(&offload->log_limit, LOG_WARNING, "Cannot start a thread: %s.", strerror(-r));
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct offload *offload = userdata;
	bool has_work;

	pthread_mutex_lock(&offload->lock);
	has_work = offload->n_ready > 0 && offload->n_threads < offload->max_threads;
	pthread_mutex_unlock(&offload->lock);
	if (has_work) {
		/* One more thread can be too few, so the timer runs until no lane is ready or all threads exist. */
		timer_start(source, RETRY_USEC);
		add_thread(offload);
	}
	return 0;
}

static struct offload_group *get_group(struct offload *offload, uint64_t key)
{
	struct offload_group *group = keyed_get(&offload->groups, key, sizeof(*group));

	if (group && group->keyed.n_refs == 1) {
		group->offload = offload;
		list_init(&group->link);
		list_init(&group->ready);
	}
	return group;
}

static void put_lane(struct offload_lane *lane)
{
	struct offload_group *group = lane->group;

	if (keyed_put(lane))
		keyed_put(group);
}

void offload_release(struct offload_job *job)
{
	if (job->lane)
		put_lane(job->lane);
	job->lane = NULL;
}

static void finish(struct offload *offload, struct offload_job *job)
{
	offload_release(job);
	offload->n_jobs--;
	job->done(job);
}

static void finish_all(struct offload *offload)
{
	struct list finished, *l;

	list_init(&finished);
	pthread_mutex_lock(&offload->lock);
	list_move_all(&finished, &offload->finished);
	pthread_mutex_unlock(&offload->lock);
	while ((l = list_first(&finished))) {
		list_remove(l);
		finish(offload, container_of(l, struct offload_job, link));
	}
}

/* WAKE is edge-triggered, so it need not be read. */
static bool on_wake(struct hot_io *io, uint32_t events)
{
	finish_all(container_of(io, struct offload, io));
	return true;
}

static void wake_threads(struct hot_later *later)
{
	struct offload *offload = container_of(later, struct offload, later);

	for (; offload->n_later > 0; offload->n_later--)
		pthread_cond_signal(&offload->work);
}

DEFINE_CLEANUP(struct offload *, offload_free)

int offload_new(struct offload **ret, sd_event *loop, unsigned max_threads)
{
	_cleanup_(offload_freep) struct offload *offload = calloc(1, sizeof(*offload));
	pthread_condattr_t attr;
	int r;

	if (!offload)
		return -ENOMEM;
	offload->max_threads = max_threads;
	offload->max_jobs_per_key = UINT_MAX;
	offload->wake = -1;
	pthread_mutex_init(&offload->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&offload->work, &attr);
	pthread_cond_init(&offload->ended, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&offload->ready);
	list_init(&offload->finished);
	list_init(&offload->later.link);
	offload->later.call = wake_threads;
	offload->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (offload->wake < 0)
		return -errno;
	offload->hot = hot_ref(loop);
	if (!offload->hot)
		return -ENOMEM;
	r = hot_add(offload->hot, &offload->io, offload->wake, EPOLLIN | EPOLLET, on_wake);
	if (r >= 0)
		r = timer_new(&offload->retry, loop, 0, on_retry, offload);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(offload);
	return 0;
}

void offload_set_limit(struct offload *offload, unsigned max_jobs_per_key)
{
	offload->max_jobs_per_key = max_jobs_per_key;
}

/* Lets the threads run the jobs that wait, and end. False: a thread has not ended in END_SECONDS. */
static bool end_threads(struct offload *offload)
{
	struct timespec deadline;
	unsigned n_left;
	int r = 0;

	deadline_in(&deadline, END_SECONDS);
	pthread_mutex_lock(&offload->lock);
	offload->ending = true;
	pthread_cond_broadcast(&offload->work);
	while (offload->n_threads > 0 && r == 0)
		r = pthread_cond_timedwait(&offload->ended, &offload->lock, &deadline);
	n_left = offload->n_threads;
	pthread_mutex_unlock(&offload->lock);
	if (n_left > 0)
		return false;
	if (offload->has_last)
		pthread_join(offload->last, NULL);
	return true;
}

struct offload *offload_free(struct offload *offload)
{
	struct offload_lane *lane;

	if (!offload)
		return NULL;
	hot_remove(&offload->io);
	hot_not_later(&offload->later);
	offload->hot = hot_unref(offload->hot);
	sd_event_source_disable_unref(offload->retry);
	if (!end_threads(offload)) {
		log_warning(
			"A system call does not return: the process ends without waiting for it.");
		return offload;
	}
	/* Run here the jobs that are left, and those that done() submits. */
	do {
		while ((lane = next_lane(offload))) {
			pthread_mutex_lock(&offload->lock);
			run_job(offload, lane);
			pthread_mutex_unlock(&offload->lock);
		}
		finish_all(offload);
	} while (offload->n_jobs > 0);
	closep(&offload->wake);
	pthread_cond_destroy(&offload->work);
	pthread_cond_destroy(&offload->ended);
	pthread_mutex_destroy(&offload->lock);
	free(offload);
	return NULL;
}

static struct offload_lane *get_lane(struct offload *offload, uint64_t key, uint64_t group)
{
	struct offload_lane *lane = keyed_get(&offload->lanes, key, sizeof(*lane));

	if (!lane || lane->keyed.n_refs > 1)
		return lane;
	list_init(&lane->link);
	list_init(&lane->jobs);
	lane->group = get_group(offload, group);
	if (!lane->group) {
		keyed_put(lane);
		return NULL;
	}
	return lane;
}

int offload_prepare_in_group(struct offload *offload, struct offload_job *job, uint64_t key,
			     uint64_t group)
{
	struct offload_lane *lane = get_lane(offload, key, group);

	if (!lane)
		return -ENOMEM;
	if (lane->keyed.n_refs > offload->max_jobs_per_key) {
		put_lane(lane);
		return -EDQUOT;
	}
	job->lane = lane;
	list_init(&job->link);
	return 0;
}

int offload_prepare(struct offload *offload, struct offload_job *job, uint64_t key)
{
	return offload_prepare_in_group(offload, job, key, key);
}

void offload_submit(struct offload *offload, struct offload_job *job)
{
	struct offload_lane *lane = job->lane;
	bool is_ready, wants_thread;

	offload->n_jobs++;
	pthread_mutex_lock(&offload->lock);
	is_ready = !lane->runs && list_is_empty(&lane->jobs);
	if (is_ready)
		make_ready(offload, lane);
	list_insert(&lane->jobs, &job->link);
	/* Each ready lane needs an idle thread of its own. */
	wants_thread = offload->n_ready > offload->n_idle &&
		       offload->n_threads < offload->max_threads && !offload->ending;
	pthread_mutex_unlock(&offload->lock);
	/* Not under the lock, in which the thread would have to wait a second time. */
	if (is_ready && offload->is_lazy) {
		offload->n_later++;
		hot_later(offload->hot, &offload->later);
	} else if (is_ready) {
		pthread_cond_signal(&offload->work);
	}
	if (wants_thread)
		add_thread(offload);
}

unsigned offload_n_jobs_of(const struct offload *offload, uint64_t key)
{
	const struct offload_lane *lane = keyed_find(offload->lanes, key);

	return lane ? lane->keyed.n_refs : 0;
}

unsigned offload_n_jobs(const struct offload *offload)
{
	return offload->n_jobs;
}

void offload_set_lazy(struct offload *offload)
{
	offload->is_lazy = true;
}

bool offload_settle(struct offload *offload, unsigned timeout_ms)
{
	struct pollfd p = { .fd = offload->wake, .events = POLLIN };
	uint64_t end = clock_ms() + timeout_ms, now, n;

	wake_threads(&offload->later);
	while (offload->n_jobs > 0 && (now = clock_ms()) < end)
		if (poll(&p, 1, (int)(end - now)) > 0 &&
		    read(offload->wake, &n, sizeof(n)) == sizeof(n))
			finish_all(offload);
	return offload->n_jobs == 0;
}
