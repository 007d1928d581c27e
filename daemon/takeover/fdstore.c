/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "proto/notifier.h"
#include "takeover/fdstore.h"
#include "util/util.h"

#define NAME_MAX_LEN 64
#define SETTLE_MSEC 10000

struct stored {
	char kind[NAME_MAX_LEN];
	unsigned n;
	int fd; /* -1: taken */
};

struct fdstore {
	struct notifier *notifier;
	bool present;
	struct stored *stored; /* what the previous process has left */
	size_t n_stored;
};

/* Splits "KIND-N". False: NAME has another form, so it was not made by fdstore_add(). */
static bool parse_name(const char *name, struct stored *ret)
{
	const char *dash = strrchr(name, '-');
	char *end;
	unsigned long n;

	if (!dash || dash == name || (size_t)(dash - name) >= sizeof(ret->kind))
		return false;
	errno = 0;
	n = strtoul(dash + 1, &end, 10);
	if (errno || end == dash + 1 || *end || n > UINT32_MAX)
		return false;
	memcpy(ret->kind, name, (size_t)(dash - name));
	ret->kind[dash - name] = 0;
	ret->n = (unsigned)n;
	return true;
}

static bool is_listening(int fd)
{
	return sd_is_socket(fd, AF_UNSPEC, 0, /* listening= */ 1) > 0;
}

/* The environment keeps what systemd passed, because socket.c looks for the listening socket there. */
static int take_passed(struct fdstore *store)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(/* unset_environment= */ 0, &names);
	int r = 0;

	if (n > 0) {
		store->stored = calloc((size_t)n, sizeof(*store->stored));
		if (!store->stored)
			r = -ENOMEM;
	}
	for (int i = 0; i < n; i++) {
		int fd = SD_LISTEN_FDS_START + i;

		/* Anything else is a socket, right or wrong. */
		if (r == 0 && !is_listening(fd) &&
		    parse_name(names[i], &store->stored[store->n_stored])) {
			fcntl(fd, F_SETFD, FD_CLOEXEC);
			store->stored[store->n_stored++].fd = fd;
		}
		free(names[i]);
	}
	free(names);
	return n < 0 ? n : r;
}

/* systemd sets FDSTORE for a service that has a store from version 254 on; the unit file sets it for older ones. */
static bool has_manager(void)
{
	const char *max = getenv("FDSTORE");

	return getenv("NOTIFY_SOCKET") && max && atoi(max) > 0;
}

DEFINE_CLEANUP(struct fdstore *, fdstore_free)

int fdstore_new(struct fdstore **ret, struct notifier *notifier)
{
	_cleanup_(fdstore_freep) struct fdstore *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return -ENOMEM;
	store->notifier = notifier;
	store->present = has_manager();
	r = take_passed(store);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(store);
	return 0;
}

struct fdstore *fdstore_free(struct fdstore *store)
{
	if (!store)
		return NULL;
	for (size_t i = 0; i < store->n_stored; i++)
		closep(&store->stored[i].fd);
	free(store->stored);
	free(store);
	return NULL;
}

bool fdstore_is_present(const struct fdstore *store)
{
	return store && store->present;
}

unsigned fdstore_count(const struct fdstore *store)
{
	return (unsigned)store->n_stored;
}

int fdstore_take(struct fdstore *store, const char *kind, unsigned *ret_n)
{
	for (size_t i = 0; i < store->n_stored; i++) {
		struct stored *stored = &store->stored[i];

		if (stored->fd < 0 || strcmp(stored->kind, kind) != 0)
			continue;
		*ret_n = stored->n;
		return TAKE_FD(stored->fd);
	}
	return -1;
}

unsigned fdstore_last(const struct fdstore *store, const char *kind)
{
	unsigned last = 0;

	for (size_t i = 0; i < store->n_stored; i++)
		if (strcmp(store->stored[i].kind, kind) == 0 && store->stored[i].n > last)
			last = store->stored[i].n;
	return last;
}

int fdstore_add(struct fdstore *store, const char *kind, unsigned n, int fd)
{
	char name[NAME_MAX_LEN + 16];
	int r;

	if (!fdstore_is_present(store))
		return 0;
	snprintf(name, sizeof(name), "%s-%u", kind, n);
	r = notifier_store(store->notifier, name, fd);
	/* The manager is not there. */
	if (r == -ENOENT || r == -ECONNREFUSED || r == -EACCES)
		store->present = false;
	return r;
}

bool fdstore_is_behind(const struct fdstore *store)
{
	return store && notifier_is_behind(store->notifier);
}

void fdstore_settle(struct fdstore *store)
{
	if (store)
		notifier_flush(store->notifier, SETTLE_MSEC);
}

void fdstore_remove(struct fdstore *store, const char *kind, unsigned n)
{
	char name[NAME_MAX_LEN + 16];

	if (!fdstore_is_present(store))
		return;
	snprintf(name, sizeof(name), "%s-%u", kind, n);
	notifier_remove(store->notifier, name);
}
