/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/internal.h"

/*
 * librdmacm opens each device that one of its ids is bound to, and keeps it open; that of the last
 * device of a host even when the device is gone. But the kernel waits for all who have a device
 * open before it lets the device go, if the driver cannot take it from them (Soft-RoCE cannot):
 * `rdma link del` would hang until the daemon ends.
 *
 * So it is remembered what librdmacm has open, and where the node has vanished its descriptors are
 * replaced by ones of /dev/null. librdmacm closes those when it next looks what devices there are.
 * Until then it asks them for nothing but to free a protection domain, which costs it a few bytes.
 * A device that comes back, under the same name too, has another index in the kernel and gets a
 * context of its own.
 *
 * Descriptors are remembered, not pointers: librdmacm may have freed the context without a word.
 * What is behind a number is compared before it is touched.
 */
struct context {
	struct list link; /* fabric.contexts */
	int cmd_fd, async_fd;
	dev_t dev;
	ino_t ino; /* of the node that cmd_fd was opened by */
};

static bool is_same(const struct context *context, const struct stat *st)
{
	return st->st_dev == context->dev && st->st_ino == context->ino;
}

static struct context *find(struct fabric *fabric, int cmd_fd)
{
	struct list *l;

	list_for_each(l, &fabric->contexts) {
		struct context *context = container_of(l, struct context, link);

		if (context->cmd_fd == cmd_fd)
			return context;
	}
	return NULL;
}

void fabric_remember_context(struct fabric *fabric, const struct ibv_context *verbs)
{
	struct context *context;
	struct stat st;

	if (fstat(verbs->cmd_fd, &st) < 0)
		return;
	context = find(fabric, verbs->cmd_fd);
	if (!context) {
		/* Out of memory: the next id of this device tries again. */
		context = calloc(1, sizeof(*context));
		if (!context)
			return;
		list_insert(&fabric->contexts, &context->link);
	}
	context->cmd_fd = verbs->cmd_fd;
	context->async_fd = verbs->async_fd;
	context->dev = st.st_dev;
	context->ino = st.st_ino;
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
void fabric_release_gone_contexts(struct fabric *fabric)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &fabric->contexts) {
		struct context *context = container_of(l, struct context, link);
		struct stat st;

		if (fstat(context->cmd_fd, &st) == 0 && is_same(context, &st)) {
			if (st.st_nlink > 0)
				continue;
			/* The event file too: it refers to the command file. */
			dup3(fabric->null_fd, context->async_fd, O_CLOEXEC);
			dup3(fabric->null_fd, context->cmd_fd, O_CLOEXEC);
		}
		forget(context);
	}
}

void fabric_forget_contexts(struct fabric *fabric)
{
	struct list *l;

	while ((l = list_first(&fabric->contexts)))
		forget(container_of(l, struct context, link));
}
