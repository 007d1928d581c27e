/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "keep/store.h"
#include "proto/notifier.h"
#include "util/util.h"

#define NAME_MAX_LEN 64
#define SETTLE_MSEC 10000

struct stored {
	char kind[NAME_MAX_LEN];
	unsigned n;
	int fd; /* -1: taken */
};

struct store {
	struct notifier *notifier;
	bool present;
	struct stored *stored; /* what the previous process has left */
	size_t n_stored;
};

/* Splits "KIND-N". False: NAME has another form, so it was not made by store_add(). */
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
static int take_over(struct store *store)
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

DEFINE_CLEANUP(struct store *, store_free)

int store_new(struct store **ret, struct notifier *notifier)
{
	_cleanup_(store_freep) struct store *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return -ENOMEM;
	store->notifier = notifier;
	store->present = has_manager();
	r = take_over(store);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(store);
	return 0;
}

struct store *store_free(struct store *store)
{
	if (!store)
		return NULL;
	for (size_t i = 0; i < store->n_stored; i++)
		closep(&store->stored[i].fd);
	free(store->stored);
	free(store);
	return NULL;
}

bool store_is_present(const struct store *store)
{
	return store && store->present;
}

unsigned store_count(const struct store *store)
{
	return (unsigned)store->n_stored;
}

int store_take(struct store *store, const char *kind, unsigned *ret_n)
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

unsigned store_last(const struct store *store, const char *kind)
{
	unsigned last = 0;

	for (size_t i = 0; i < store->n_stored; i++)
		if (strcmp(store->stored[i].kind, kind) == 0 && store->stored[i].n > last)
			last = store->stored[i].n;
	return last;
}

int store_add(struct store *store, const char *kind, unsigned n, int fd)
{
	char name[NAME_MAX_LEN + 16];
	int r;

	if (!store_is_present(store))
		return 0;
	snprintf(name, sizeof(name), "%s-%u", kind, n);
	r = notifier_store(store->notifier, name, fd);
	/* The manager is not there. */
	if (r == -ENOENT || r == -ECONNREFUSED || r == -EACCES)
		store->present = false;
	return r;
}

bool store_is_behind(const struct store *store)
{
	return store && notifier_is_behind(store->notifier);
}

void store_settle(struct store *store)
{
	if (store)
		notifier_flush(store->notifier, SETTLE_MSEC);
}

void store_remove(struct store *store, const char *kind, unsigned n)
{
	char name[NAME_MAX_LEN + 16];

	if (!store_is_present(store))
		return;
	snprintf(name, sizeof(name), "%s-%u", kind, n);
	notifier_remove(store->notifier, name);
}
