/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/closer.h"
#include "util/keyed.h"
#include "util/offload.h"
#include "util/util.h"

struct closer_user {
	struct keyed
		keyed; /* closer.users, by owner_key(); closings that are bound to the user have references */
	struct owner owner;
	unsigned n_waiting; /* descriptors submitted and not closed yet */
};

struct closer {
	struct account *account;
	void (*caught_up)(void *userdata);
	void *userdata;
	struct offload *offloads[_CLOSER_CLASS_MAX];
	struct keyed *users; /* closer_user.keyed */
	unsigned n_waiting;
	struct list busy; /* closing.busy */
};

struct closing {
	struct offload_job job;
	struct list busy; /* closer.busy, from closing_go() on */
	struct closer *closer;
	struct closer_user *user; /* NULL: not bound */
	struct offload *offload; /* the one that JOB is prepared for */
	struct charge charge;
	size_t n, max;
	int fds[];
};

static const unsigned n_threads[] = {
	[CLOSER_STRANGER] = CLOSER_THREADS_FOR_STRANGERS,
	[CLOSER_ADMITTED] = CLOSER_THREADS,
	[CLOSER_EMPTY] = CLOSER_THREADS_FOR_EMPTY,
};

DEFINE_CLEANUP(struct closer *, closer_free)

int closer_new(struct closer **ret, sd_event *loop, struct account *account)
{
	_cleanup_(closer_freep) struct closer *closer = calloc(1, sizeof(*closer));
	int r;

	if (!closer)
		return -ENOMEM;
	closer->account = account;
	list_init(&closer->busy);
	for (size_t i = 0; i < _CLOSER_CLASS_MAX; i++) {
		r = offload_new(&closer->offloads[i], loop, n_threads[i]);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(closer);
	return 0;
}

void closer_set_caught_up(struct closer *closer, void (*caught_up)(void *userdata), void *userdata)
{
	closer->caught_up = caught_up;
	closer->userdata = userdata;
}

struct closer *closer_free(struct closer *closer)
{
	struct list *l;

	if (!closer)
		return NULL;
	closer->caught_up = NULL;
	for (size_t i = 0; i < _CLOSER_CLASS_MAX; i++)
		offload_free(closer->offloads[i]);
	/* Closings that a stuck thread has not finished stay allocated until the process ends. */
	if (!list_is_empty(&closer->busy)) {
		list_for_each(l, &closer->busy)
			charge_done(&container_of(l, struct closing, busy)->charge);
		return NULL;
	}
	assert(!closer->users);
	free(closer);
	return NULL;
}

bool closer_is_behind(const struct closer *closer, struct owner owner)
{
	const struct closer_user *user = keyed_find(closer->users, owner_key(owner));

	return user && user->n_waiting > CLOSER_MANY;
}

unsigned closer_n_waiting(const struct closer *closer)
{
	return closer->n_waiting;
}

static void run(struct offload_job *job)
{
	struct closing *closing = container_of(job, struct closing, job);

	for (size_t i = 0; i < closing->n; i++)
		close(closing->fds[i]);
}

static void done(struct offload_job *job)
{
	struct closing *closing = container_of(job, struct closing, job);
	struct closer *closer = closing->closer;
	struct closer_user *user = closing->user;
	bool was_behind = user->n_waiting > CLOSER_MANY;

	user->n_waiting -= (unsigned)closing->n;
	closer->n_waiting -= (unsigned)closing->n;
	was_behind = was_behind && user->n_waiting <= CLOSER_MANY;
	list_remove(&closing->busy);
	keyed_put(user);
	charge_done(&closing->charge);
	free(closing);
	if (was_behind && closer->caught_up)
		closer->caught_up(closer->userdata);
}

int closing_new(struct closing **ret, struct closer *closer, size_t max)
{
	struct closing *closing = calloc(1, sizeof(*closing) + max * sizeof(closing->fds[0]));

	if (!closing)
		return -ENOMEM;
	closing->closer = closer;
	closing->max = max;
	closing->job.run = run;
	closing->job.done = done;
	*ret = closing;
	return 0;
}

int closing_bind(struct closing *closing, struct owner owner, enum closer_class class)
{
	struct closer *closer = closing->closer;
	struct offload *offload = closer->offloads[class];
	struct closer_user *user;
	struct offload_job job = closing->job;
	int r;

	user = keyed_get(&closer->users, owner_key(owner), sizeof(*user));
	if (!user)
		return -ENOMEM;
	user->owner = owner;
	r = offload_prepare_in_group(offload, &job, owner.uid, owner_group(owner));
	if (r < 0) {
		keyed_put(user);
		return r;
	}
	/* The old binding is released last, so that a failure changes nothing. */
	offload_release(&closing->job);
	if (closing->user)
		keyed_put(closing->user);
	closing->job.lane = job.lane;
	list_init(&closing->job.link);
	closing->offload = offload;
	closing->user = user;
	return 0;
}

bool closing_is_bound(const struct closing *closing)
{
	return closing->user != NULL;
}

void closing_add(struct closing *closing, int fd)
{
	assert(closing->user && closing->n < closing->max);
	closing->fds[closing->n++] = fd;
	/* If memory runs out, the descriptor is not charged. */
	if (closing->charge.account)
		charge_grow(&closing->charge, 1);
	else
		account_add(closing->closer->account, &closing->charge, ACCOUNT_FDS, 1,
			    closing->user->owner);
}

struct closing *closing_go(struct closing *closing)
{
	closing->user->n_waiting += (unsigned)closing->n;
	closing->closer->n_waiting += (unsigned)closing->n;
	list_insert(&closing->closer->busy, &closing->busy);
	offload_submit(closing->offload, &closing->job);
	return NULL;
}

struct closing *closing_free(struct closing *closing)
{
	if (!closing)
		return NULL;
	assert(closing->n == 0);
	offload_release(&closing->job);
	if (closing->user)
		keyed_put(closing->user);
	free(closing);
	return NULL;
}
