/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "missing_names.h"
#include "proto/timer.h"
#include "util/diag.h"
#include "util/offload.h"
#include "util/util.h"

#define LONGEST_USEC (300 * 1000000ULL)

struct missing_names {
	void (*found)(void *userdata, struct policy *policy);
	void *userdata;
	sd_event_source *timer;
	uint64_t first_usec;
	uint64_t next_usec;
	struct policy *policy; /* the policy in force; NULL: it has no missing names */

	/* one thread of its own, so that reloads do not wait for look-ups */
	struct offload *offload;
	struct offload_job job;
	/* never submitted: it keeps the lane allocated, so that offload_prepare() cannot fail */
	struct offload_job keep;
	bool runs;

	/* While the thread runs, only the thread uses these: */
	struct policy *from;
	struct policy *to; /* the result; NULL: the look-up failed */
};

static size_t n_missing(const struct policy *policy)
{
	const char *first;

	return policy_n_missing_names(policy, &first);
}

static void set_timer(struct missing_names *names)
{
	if (!names->policy) {
		timer_stop(names->timer);
		return;
	}
	timer_start(names->timer, names->next_usec);
	names->next_usec *= 2;
	if (names->next_usec > LONGEST_USEC)
		names->next_usec = LONGEST_USEC;
}

static void run(struct offload_job *job)
{
	struct missing_names *names = container_of(job, struct missing_names, job);
	struct diag *diag;

	if (diag_new(&diag) < 0)
		return;
	policy_load_again(&names->to, names->from, diag);
	diag_free(diag);
}

static void on_done(struct offload_job *job)
{
	struct missing_names *names = container_of(job, struct missing_names, job);
	struct policy *from = names->from, *to = names->to;

	names->runs = false;
	names->from = names->to = NULL;
	/* Another policy can be in force by now. */
	if (names->found && to && from == names->policy && n_missing(to) < n_missing(from))
		names->found(names->userdata, to);
	policy_unref(from);
	policy_unref(to);
	if (names->found && sd_event_source_get_enabled(names->timer, NULL) == 0)
		set_timer(names);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct missing_names *names = userdata;

	/* If a look-up for an earlier policy is pending, on_done() sets the timer. */
	if (names->runs)
		return 0;
	names->runs = true;
	names->from = policy_ref(names->policy);
	/* Cannot fail, see NAMES->keep. */
	offload_prepare(names->offload, &names->job, 0);
	offload_submit(names->offload, &names->job);
	return 0;
}

DEFINE_CLEANUP(struct missing_names *, missing_names_free)

int missing_names_new(struct missing_names **ret, sd_event *loop, unsigned first_msec,
		      void (*found)(void *userdata, struct policy *policy), void *userdata)
{
	_cleanup_(missing_names_freep) struct missing_names *names = calloc(1, sizeof(*names));
	int r;

	if (!names)
		return -ENOMEM;
	names->found = found;
	names->userdata = userdata;
	names->first_usec = first_msec * 1000ULL;
	names->job.run = run;
	names->job.done = on_done;
	r = timer_new(&names->timer, loop, 0, on_timer, names);
	if (r >= 0)
		r = offload_new(&names->offload, loop, 1);
	if (r >= 0)
		r = offload_prepare(names->offload, &names->keep, 0);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(names);
	return 0;
}

struct missing_names *missing_names_free(struct missing_names *names)
{
	if (!names)
		return NULL;
	names->found = NULL;
	sd_event_source_disable_unref(names->timer);
	names->timer = NULL;
	offload_release(&names->keep);
	offload_free(names->offload);
	policy_unref(names->policy);
	/* A thread that is stuck in a look-up still uses NAMES. */
	if (!names->runs)
		free(names);
	return NULL;
}

void missing_names_watch(struct missing_names *names, struct policy *policy)
{
	if (names->policy == policy)
		return;
	policy_unref(names->policy);
	names->policy = n_missing(policy) > 0 ? policy_ref(policy) : NULL;
	names->next_usec = names->first_usec;
	set_timer(names);
}
