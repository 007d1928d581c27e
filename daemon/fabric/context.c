/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/internal.h"

/*
 * librdmacm opens each device that one of its ids is bound to, and keeps it open; the last device of a
 * host it keeps even when the device is gone. But the kernel waits for all who have a device open before
 * it lets the device go, if the driver cannot take it from them (Soft-RoCE cannot): `rdma link del` would
 * hang until the daemon ends.
 *
 * So it is remembered what librdmacm has open, and where the node has vanished its descriptors are
 * replaced by ones of /dev/null. librdmacm closes those in its own time, and meets errors that it ignores.
 * Descriptors are remembered, not pointers: librdmacm may have closed them before, and what is behind the
 * number is compared before it is touched.
 */

static bool is_same(const struct fabric_context *context, const struct stat *st)
{
	return st->st_dev == context->dev && st->st_ino == context->ino;
}

void fabric_remember_context(struct fabric *fabric, struct ibv_context *verbs)
{
	struct fabric_context *context;
	struct ibv_device_attr attr;
	struct list *l;
	struct stat st;

	if (!verbs || fstat(verbs->cmd_fd, &st) < 0)
		return;
	list_for_each(l, &fabric->contexts) {
		context = container_of(l, struct fabric_context, link);
		if (context->cmd_fd == verbs->cmd_fd && is_same(context, &st))
			return;
	}
	context = calloc(1, sizeof(*context));
	if (!context)
		return;
	snprintf(context->name, sizeof(context->name), "%s", ibv_get_device_name(verbs->device));
	context->index = (uint32_t)ibv_get_device_index(verbs->device);
	context->n_ports = ibv_query_device(verbs, &attr) == 0 ? attr.phys_port_cnt : 1;
	context->cmd_fd = verbs->cmd_fd;
	context->async_fd = verbs->async_fd;
	context->dev = st.st_dev;
	context->ino = st.st_ino;
	list_insert(fabric->contexts.next, &context->link);
}

void fabric_release_gone_contexts(struct fabric *fabric)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &fabric->contexts) {
		struct fabric_context *context = container_of(l, struct fabric_context, link);
		bool open;
		struct stat st;

		open = fstat(context->cmd_fd, &st) == 0 && is_same(context, &st);
		if (open && st.st_nlink > 0)
			continue;
		if (open) {
			dup3(fabric->null_fd, context->async_fd, O_CLOEXEC);
			dup3(fabric->null_fd, context->cmd_fd, O_CLOEXEC);
		}
		list_remove(&context->link);
		free(context);
	}
}

/* The youngest of this name. */
struct fabric_context *fabric_find_context(struct fabric *fabric, const char *name)
{
	struct list *l;

	list_for_each(l, &fabric->contexts) {
		struct fabric_context *context = container_of(l, struct fabric_context, link);

		if (strcmp(context->name, name) == 0)
			return context;
	}
	return NULL;
}
