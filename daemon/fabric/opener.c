/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/opener.h"
#include "util/list.h"
#include "util/offload.h"
#include "util/util.h"

/*
 * A device that librdmacm has open. Descriptors are remembered, not pointers: librdmacm may have freed the context
 * without a word. What is behind a number is compared before it is touched.
 */
struct context {
	struct list link; /* opener.contexts */
	int cmd_fd, async_fd;
	dev_t dev;
	ino_t ino; /* of the node that cmd_fd was opened by */
};

struct opener {
	struct offload *offload; /* with one thread */
	struct offload_job job;
	void (*done)(void *userdata);
	void *userdata;
	bool runs;
	bool again; /* something has changed while it ran */
	bool wants_open;

	/* The thread's, while a job runs: */
	bool may_open;
	struct list contexts; /* context.link */
	struct ibv_context **devices; /* librdmacm's list; NULL: none was opened yet */
	int null_fd; /* /dev/null */
};

static bool is_same(const struct context *context, const struct stat *st)
{
	return st->st_dev == context->dev && st->st_ino == context->ino;
}

static void forget(struct context *context)
{
	list_remove(&context->link);
	free(context);
}

/*
 * The kernel unlinks the node before it begins to wait. Of a node that nobody unlinked, because the
 * daemon's /dev is not the kernel's own, this notices nothing.
 */
static void release_gone(struct opener *opener)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &opener->contexts) {
		struct context *context = container_of(l, struct context, link);
		struct stat st;

		if (fstat(context->cmd_fd, &st) == 0 && is_same(context, &st)) {
			if (st.st_nlink > 0)
				continue;
			/* The event file too: it refers to the command file. */
			dup3(opener->null_fd, context->async_fd, O_CLOEXEC);
			dup3(opener->null_fd, context->cmd_fd, O_CLOEXEC);
		}
		forget(context);
	}
}

static struct context *find(struct opener *opener, int cmd_fd)
{
	struct list *l;

	list_for_each(l, &opener->contexts) {
		struct context *context = container_of(l, struct context, link);

		if (context->cmd_fd == cmd_fd)
			return context;
	}
	return NULL;
}

static void remember(struct opener *opener, const struct ibv_context *verbs)
{
	struct context *context;
	struct stat st;

	if (fstat(verbs->cmd_fd, &st) < 0)
		return;
	context = find(opener, verbs->cmd_fd);
	if (!context) {
		/* Out of memory: the next look tries again. */
		context = calloc(1, sizeof(*context));
		if (!context)
			return;
		list_insert(&opener->contexts, &context->link);
	}
	context->cmd_fd = verbs->cmd_fd;
	context->async_fd = verbs->async_fd;
	context->dev = st.st_dev;
	context->ino = st.st_ino;
}

/* In the thread. The new list is there before the old one goes, so that what is in both stays open. */
static void run(struct offload_job *job)
{
	struct opener *opener = container_of(job, struct opener, job);
	struct ibv_context **old = opener->devices;

	release_gone(opener);
	if (!opener->may_open)
		return;
	opener->devices = rdma_get_devices(NULL);
	/* No memory, or the last device is gone: what is open stays so until the next look. */
	if (!opener->devices) {
		opener->devices = old;
		return;
	}
	for (struct ibv_context **verbs = opener->devices; verbs && *verbs; verbs++)
		remember(opener, *verbs);
	if (old)
		rdma_free_devices(old);
}

static void start(struct opener *opener)
{
	opener->may_open = opener->wants_open;
	/* Without memory the next change leads to another look. */
	opener->runs = offload_prepare(opener->offload, &opener->job, 0) == 0;
	if (opener->runs)
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
	list_init(&opener->contexts);
	opener->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (opener->null_fd < 0)
		return -errno;
	r = offload_new(&opener->offload, loop, 1);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(opener);
	return 0;
}

struct opener *opener_free(struct opener *opener)
{
	struct list *l;

	if (!opener)
		return NULL;
	opener->done = NULL;
	opener->again = false;
	offload_free(opener->offload);
	/* Stuck with a device: it has everything until the process ends. */
	if (opener->runs)
		return NULL;
	if (opener->devices)
		rdma_free_devices(opener->devices);
	while ((l = list_first(&opener->contexts)))
		forget(container_of(l, struct context, link));
	closep(&opener->null_fd);
	free(opener);
	return NULL;
}
