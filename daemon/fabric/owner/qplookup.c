/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "fabric/device/device.h"
#include "fabric/internal.h"
#include "fabric/owner/qpscan.h"
#include "util/util.h"

/*
 * Finds a QP's owner in a thread, because the driver's query_qp() can send a command to the firmware and wait
 * for it. A user's look-ups are made one after the other. A QP without a port is found by a scan of all QPs,
 * see qpscan.h.
 */

struct fabric_lookup {
	struct offload_job job;
	struct fabric *fabric;
	fabric_answer_fn done; /* NULL: cancelled */
	void *userdata;

	/* While the thread runs, only the thread uses these: */
	char name[64];
	struct nldev_device device;
	struct qpscan_wait wait; /* has the QP number and the process */
	struct owner owner;
	int answer;
};

/* A socket that is kept, or NULL. Called in threads. */
static struct nldev *take_socket(struct fabric *fabric)
{
	struct nldev *nldev = NULL;

	pthread_mutex_lock(&fabric->sockets.lock);
	if (fabric->sockets.n > 0)
		nldev = fabric->sockets.kept[--fabric->sockets.n];
	pthread_mutex_unlock(&fabric->sockets.lock);
	return nldev;
}

static void keep_socket(struct fabric *fabric, struct nldev *nldev)
{
	pthread_mutex_lock(&fabric->sockets.lock);
	if (fabric->sockets.n < LOOKUP_THREADS)
		fabric->sockets.kept[fabric->sockets.n++] = TAKE_PTR(nldev);
	pthread_mutex_unlock(&fabric->sockets.lock);
	nldev_free(nldev);
}

/* When nothing is looked up, one socket is enough. */
static void close_sockets(struct fabric *fabric)
{
	if (offload_n_jobs(fabric->lookups) > 0)
		return;
	pthread_mutex_lock(&fabric->sockets.lock);
	while (fabric->sockets.n > 1)
		nldev_free(fabric->sockets.kept[--fabric->sockets.n]);
	pthread_mutex_unlock(&fabric->sockets.lock);
}

static void run(struct offload_job *job)
{
	struct fabric_lookup *lookup = container_of(job, struct fabric_lookup, job);
	struct nldev *nldev = take_socket(lookup->fabric);

	lookup->answer = nldev ? 0 : nldev_new(&nldev);
	if (lookup->answer < 0)
		return;
	lookup->answer = qpowner_find(nldev, lookup->name, &lookup->device, lookup->wait.want.qpn,
				      lookup->wait.want.pid);
	keep_socket(lookup->fabric, nldev);
}

static void lookup_free(struct fabric_lookup *lookup)
{
	offload_release(&lookup->job);
	free(lookup);
}

static void finish(struct fabric_lookup *lookup, int answer)
{
	fabric_answer_fn done = lookup->done;
	void *userdata = lookup->userdata;

	lookup_free(lookup);
	if (done)
		done(userdata, answer);
}

static void on_scanned(struct qpscan_wait *wait, int answer)
{
	finish(container_of(wait, struct fabric_lookup, wait), answer);
}

static void on_done(struct offload_job *job)
{
	struct fabric_lookup *lookup = container_of(job, struct fabric_lookup, job);
	struct fabric_device *device = fabric_find_device(lookup->fabric, lookup->name);
	int r;

	close_sockets(lookup->fabric);
	if (device)
		device->nldev = lookup->device;
	if (lookup->answer != -EAGAIN || !lookup->done) {
		finish(lookup, lookup->answer);
		return;
	}
	/* The job is not submitted again. While the job is prepared, it counts among the user's look-ups. */
	r = offload_prepare_in_group(lookup->fabric->lookups, &lookup->job, lookup->owner.uid,
				     owner_group(lookup->owner));
	if (r == 0)
		r = qpscan_ask(lookup->fabric->qpscan, &lookup->wait);
	if (r < 0)
		finish(lookup, r);
}

int fabric_qp_belongs(struct fabric_lookup **ret, struct fabric *fabric, const char *name,
		      uint32_t qpn, pid_t pid, struct owner owner, fabric_answer_fn done,
		      void *userdata)
{
	struct fabric_device *device = fabric_find_device(fabric, name);
	struct fabric_lookup *lookup;
	int r;

	*ret = NULL;
	if (!device || strlen(name) >= sizeof(lookup->name))
		return -ENODEV;
	lookup = calloc(1, sizeof(*lookup));
	if (!lookup)
		return -ENOMEM;
	lookup->fabric = fabric;
	lookup->done = done;
	lookup->userdata = userdata;
	strcpy(lookup->name, name);
	lookup->device = device->nldev;
	lookup->owner = owner;
	lookup->wait.device = lookup->name;
	lookup->wait.group = owner_group(owner);
	lookup->wait.want.answer = -ENOMEM;
	lookup->wait.want.qpn = qpn;
	lookup->wait.want.pid = pid;
	lookup->wait.done = on_scanned;
	lookup->job.run = run;
	lookup->job.done = on_done;
	r = offload_prepare_in_group(fabric->lookups, &lookup->job, owner.uid, owner_group(owner));
	if (r < 0) {
		lookup_free(lookup);
		return r;
	}
	offload_submit(fabric->lookups, &lookup->job);
	*ret = lookup;
	return -EINPROGRESS;
}

struct fabric_lookup *fabric_lookup_cancel(struct fabric_lookup *lookup)
{
	if (lookup)
		lookup->done = NULL;
	return NULL;
}
