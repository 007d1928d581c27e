/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "proto/sdnotify.h"
#include "proto/unixsock.h"
#include "tests/unit/manager.h"

#define PASSED_MAX 24
#define KEPT_FROM 200 /* the numbers of the descriptors that are kept */

static struct kept {
	char name[64];
	int fd;
} kept[PASSED_MAX];
static unsigned n_kept;
#define N_DOORS 3
static const char *const doors[N_DOORS] = { "rdmabrokerd.socket", "admin", "helper" };
static int listening[N_DOORS] = { -1, -1, -1 };
static bool reads = true;
static int to_manager = -1, from_service = -1; /* a pair; what is in it is of no interest */
static int n_passed; /* descriptors that were passed to the present process */

/*
 * The descriptors that systemd passes have fixed numbers. So these are occupied before anything else opens a
 * descriptor.
 */
__attribute__((constructor)) static void occupy(void)
{
	for (int i = 0; i < PASSED_MAX; i++)
		assert(dup2(STDERR_FILENO, SD_LISTEN_FDS_START + i) >= 0);
}

/* In the place of libc's, for the whole program: keeps the numbers of passed descriptors occupied. */
int close(int fd)
{
	if (fd >= SD_LISTEN_FDS_START && fd < SD_LISTEN_FDS_START + PASSED_MAX)
		return dup2(STDERR_FILENO, fd) < 0 ? -1 : 0;
	return (int)syscall(SYS_close, fd);
}

static void drop(unsigned i)
{
	close(kept[i].fd);
	kept[i] = kept[--n_kept];
}

void manager_drop(void)
{
	while (n_kept > 0)
		drop(0);
}

void manager_set_reading(bool new_reads)
{
	char byte;

	reads = new_reads;
	/* The service's socket is writable if the manager reads. */
	if (reads)
		while (recv(from_service, &byte, 1, MSG_DONTWAIT) >= 0)
			;
	else
		while (send(to_manager, "", 1, MSG_DONTWAIT) >= 0)
			;
}

void manager_begin(const char *common, const char *admin, const char *helper)
{
	const char *paths[N_DOORS] = { common, admin, helper };

	manager_drop();
	setenv("NOTIFY_SOCKET", "/nowhere", 1);
	setenv("FDSTORE", "16", 1);
	for (int i = 0; i < N_DOORS; i++) {
		if (listening[i] >= 0)
			close(listening[i]);
		listening[i] = unixsock_listen(paths[i], SOCK_SEQPACKET, 0600, 64);
		assert(listening[i] >= 0);
	}
}

static bool is_of_kind(const struct kept *k, const char *kind)
{
	size_t len = strlen(kind);

	return strncmp(k->name, kind, len) == 0 && k->name[len] == '-';
}

static unsigned number_of(const struct kept *k)
{
	return (unsigned)atoi(strrchr(k->name, '-') + 1);
}

unsigned manager_count(const char *kind)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_kept; i++)
		n += is_of_kind(&kept[i], kind);
	return n;
}

static const struct kept *newest(const char *kind)
{
	const struct kept *ret = NULL;

	for (unsigned i = 0; i < n_kept; i++)
		if (is_of_kind(&kept[i], kind) && (!ret || number_of(&kept[i]) > number_of(ret)))
			ret = &kept[i];
	return ret;
}

unsigned manager_number(const char *kind)
{
	const struct kept *k = newest(kind);

	return k ? number_of(k) : 0;
}

int manager_get(const char *kind)
{
	const struct kept *k = newest(kind);

	return k ? k->fd : -1;
}

/* In the place of functions of libsystemd and of proto/sdnotify.c: */

static int pass_all(void)
{
	for (int i = 0; i < N_DOORS; i++)
		dup2(listening[i], SD_LISTEN_FDS_START + i);
	for (unsigned i = 0; i < n_kept; i++)
		dup2(kept[i].fd, SD_LISTEN_FDS_START + N_DOORS + (int)i);
	return N_DOORS + (int)n_kept;
}

/* The process looks twice, and unsets the environment at last. It gets the descriptors once. */
int sd_listen_fds_with_names(int unset_environment, char ***names)
{
	static char *passed[PASSED_MAX];

	if (!unset_environment) {
		for (int i = 0; i < n_passed; i++)
			free(passed[i]);
		n_passed = pass_all();
		for (int i = 0; i < n_passed; i++)
			passed[i] = strdup(i < N_DOORS ? doors[i] : kept[i - N_DOORS].name);
	}
	*names = calloc((size_t)n_passed + 1, sizeof(**names));
	assert(*names);
	for (int i = 0; i < n_passed; i++)
		(*names)[i] = strdup(passed[i]);
	return n_passed;
}

static void get_name(char ret[64], const char *state)
{
	const char *name = strstr(state, "FDNAME=");

	assert(name);
	snprintf(ret, 64, "%.*s", (int)strcspn(name + 7, "\n"), name + 7);
}

int sdnotify_open(void)
{
	int fds[2];

	if (to_manager < 0) {
		assert(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds) == 0);
		to_manager = fcntl(fds[0], F_DUPFD_CLOEXEC, KEPT_FROM);
		from_service = fcntl(fds[1], F_DUPFD_CLOEXEC, KEPT_FROM);
		assert(to_manager >= 0 && from_service >= 0);
		close(fds[0]);
		close(fds[1]);
	}
	return fcntl(to_manager, F_DUPFD_CLOEXEC, 0);
}

int sdnotify_send(int sock, const char *text, int fd)
{
	char name[64];

	if (!reads)
		return -EAGAIN;
	if (strstr(text, "FDSTOREREMOVE=1")) {
		get_name(name, text);
		for (unsigned i = n_kept; i > 0; i--)
			if (strcmp(kept[i - 1].name, name) == 0)
				drop(i - 1);
	} else if (strstr(text, "FDSTORE=1") && n_kept < PASSED_MAX - 1) {
		get_name(kept[n_kept].name, text);
		kept[n_kept].fd = fcntl(fd, F_DUPFD_CLOEXEC, KEPT_FROM);
		assert(kept[n_kept].fd >= 0);
		n_kept++;
	}
	return 0;
}
