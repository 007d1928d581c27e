/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "work.h"

#define THREADS_MAX 8

struct work {
	pthread_mutex_t lock; /* of all members down to ENDING */
	pthread_cond_t wake; /* a job waits, or ENDING is set */
	struct job *waiting, *finished; /* the oldest first */
	unsigned n_waiting;
	bool ending;
	pthread_t threads[THREADS_MAX];
	unsigned n_threads;
	int fd; /* an eventfd: jobs are finished */
	sd_event_source *io; /* of FD */
};

static void *run(void *userdata)
{
	struct work *work = userdata;
	struct job *job;

	pthread_mutex_lock(&work->lock);
	while (!work->ending) {
		job = work->waiting;
		if (!job) {
			pthread_cond_wait(&work->wake, &work->lock);
			continue;
		}
		DL_DELETE(work->waiting, job);
		work->n_waiting--;
		pthread_mutex_unlock(&work->lock);
		job->run(job);
		pthread_mutex_lock(&work->lock);
		DL_APPEND(work->finished, job);
		eventfd_write(work->fd, 1);
	}
	pthread_mutex_unlock(&work->lock);
	return NULL;
}

static void finish(struct job *jobs)
{
	struct job *job, *next;

	DL_FOREACH_SAFE(jobs, job, next)
		job->done(job);
}

static int on_finished(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct work *work = userdata;
	struct job *jobs;
	eventfd_t n;

	eventfd_read(fd, &n);
	pthread_mutex_lock(&work->lock);
	jobs = work->finished;
	work->finished = NULL;
	pthread_mutex_unlock(&work->lock);
	finish(jobs);
	return 0;
}

static int start_threads(struct work *work, unsigned n)
{
	int r;

	for (; work->n_threads < n; work->n_threads++) {
		r = pthread_create(&work->threads[work->n_threads], NULL, run, work);
		if (r != 0)
			return -r;
	}
	return 0;
}

int work_new(struct work **ret, sd_event *loop, unsigned n_threads)
{
	struct work *work = calloc(1, sizeof(*work));
	int r = 0;

	if (!work)
		return -ENOMEM;
	pthread_mutex_init(&work->lock, NULL);
	pthread_cond_init(&work->wake, NULL);
	work->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (work->fd < 0)
		r = -errno;
	if (r == 0)
		r = sd_event_add_io(loop, &work->io, work->fd, EPOLLIN, on_finished, work);
	if (r >= 0)
		r = start_threads(work, n_threads < THREADS_MAX ? n_threads : THREADS_MAX);
	if (r < 0) {
		work_free(work);
		return r;
	}
	*ret = work;
	return 0;
}

struct work *work_free(struct work *work)
{
	if (!work)
		return NULL;
	pthread_mutex_lock(&work->lock);
	work->ending = true;
	pthread_cond_broadcast(&work->wake);
	pthread_mutex_unlock(&work->lock);
	for (unsigned i = 0; i < work->n_threads; i++)
		pthread_join(work->threads[i], NULL);
	finish(work->finished);
	finish(work->waiting);
	sd_event_source_disable_unref(work->io);
	if (work->fd >= 0)
		close(work->fd);
	pthread_cond_destroy(&work->wake);
	pthread_mutex_destroy(&work->lock);
	free(work);
	return NULL;
}

int work_add(struct work *work, struct job *job)
{
	int r = -EAGAIN;

	pthread_mutex_lock(&work->lock);
	if (work->n_waiting < WORK_MAX) {
		DL_APPEND(work->waiting, job);
		work->n_waiting++;
		pthread_cond_signal(&work->wake);
		r = 0;
	}
	pthread_mutex_unlock(&work->lock);
	return r;
}
