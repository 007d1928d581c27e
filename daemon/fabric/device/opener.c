/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/device/opener.h"
#include "util/offload.h"
#include "util/util.h"

struct opener {
	struct offload *offload; /* has one thread */
	struct offload_job job;
	/* never submitted: it keeps the lane allocated, so that offload_prepare() cannot fail */
	struct offload_job keep;
	void (*done)(void *userdata);
	void *userdata;
	bool runs;
	bool again; /* opener_look() was called while the thread ran */
	bool wants_open;

	/* While a job runs, only the thread uses these: */
	bool may_open;
	/* from rdma_get_devices(), which keeps them open; NULL: none was opened yet */
	struct ibv_context **devices;
	int null_fd;
};

/*
 * Replaces the descriptors of devices whose node was unlinked. The kernel unlinks a node before it waits for
 * the descriptors to be closed. If the daemon's /dev is not the kernel's devtmpfs, nodes are not unlinked
 * there.
 */
static void release_gone(struct opener *opener)
{
	for (struct ibv_context **verbs = opener->devices; verbs && *verbs; verbs++) {
		struct stat st;

		if (fstat((*verbs)->cmd_fd, &st) < 0 || st.st_nlink > 0)
			continue;
		/* ASYNC_FD holds a reference to the file of CMD_FD. */
		dup3(opener->null_fd, (*verbs)->async_fd, O_CLOEXEC);
		dup3(opener->null_fd, (*verbs)->cmd_fd, O_CLOEXEC);
	}
}

static bool is_released(const struct opener *opener, const struct ibv_context *verbs)
{
	struct stat st, null;

	return fstat(verbs->cmd_fd, &st) == 0 && fstat(opener->null_fd, &null) == 0 &&
	       st.st_dev == null.st_dev && st.st_ino == null.st_ino;
}

static bool has(struct ibv_context *const *devices, const struct ibv_context *verbs)
{
	for (; *devices; devices++)
		if (*devices == verbs)
			return true;
	return false;
}

/*
 * True if DEVICES lacks an open device that was not released. Then the old list is kept until the next
 * opener_look(): the kernel removes a device from librdmacm's list before it unlinks the node.
 */
static bool loses_one(const struct opener *opener, struct ibv_context *const *devices)
{
	for (struct ibv_context **verbs = opener->devices; verbs && *verbs; verbs++)
		if (!has(devices, *verbs) && !is_released(opener, *verbs))
			return true;
	return false;
}

/*
 * The new list is made before the old list is freed, so that devices in both lists stay open. When the old
 * list is freed, librdmacm can close the other devices' descriptors, and the numbers can be reused. So these
 * devices must be released before.
 */
static void run(struct offload_job *job)
{
	struct opener *opener = container_of(job, struct opener, job);
	struct ibv_context **devices;

	release_gone(opener);
	if (!opener->may_open)
		return;
	devices = rdma_get_devices(NULL);
	/* No memory, or no device is left. */
	if (!devices)
		return;
	release_gone(opener);
	if (loses_one(opener, devices)) {
		rdma_free_devices(devices);
		return;
	}
	if (opener->devices)
		rdma_free_devices(opener->devices);
	opener->devices = devices;
}

static void start(struct opener *opener)
{
	opener->may_open = opener->wants_open;
	opener->runs = true;
	/* Cannot fail, see OPENER->keep. */
	offload_prepare(opener->offload, &opener->job, 0);
	offload_submit(opener->offload, &opener->job);
}

static void on_done(struct offload_job *job)
{
	struct opener *opener = container_of(job, struct opener, job);

	opener->runs = false;
	if (opener->again) {
		opener->again = false;
		start(opener);
	} else if (opener->done) {
		opener->done(opener->userdata);
	}
}

void opener_look(struct opener *opener, bool may_open)
{
	opener->wants_open = opener->wants_open || may_open;
	if (opener->runs)
		opener->again = true;
	else
		start(opener);
}

bool opener_is_running(const struct opener *opener)
{
	return opener->runs;
}

bool opener_has_looked(const struct opener *opener)
{
	return opener->wants_open;
}

DEFINE_CLEANUP(struct opener *, opener_free)

int opener_new(struct opener **ret, sd_event *loop, void (*done)(void *userdata), void *userdata)
{
	_cleanup_(opener_freep) struct opener *opener = calloc(1, sizeof(*opener));
	int r;

	if (!opener)
		return -ENOMEM;
	opener->done = done;
	opener->userdata = userdata;
	opener->job.run = run;
	opener->job.done = on_done;
	opener->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (opener->null_fd < 0)
		return -errno;
	r = offload_new(&opener->offload, loop, 1);
	if (r == 0)
		r = offload_prepare(opener->offload, &opener->keep, 0);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(opener);
	return 0;
}

struct opener *opener_free(struct opener *opener)
{
	if (!opener)
		return NULL;
	opener->done = NULL;
	opener->again = false;
	offload_release(&opener->keep);
	offload_free(opener->offload);
	/* A stuck thread still uses these objects, so they stay allocated until the process ends. */
	if (opener->runs)
		return NULL;
	if (opener->devices)
		rdma_free_devices(opener->devices);
	closep(&opener->null_fd);
	free(opener);
	return NULL;
}
