/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Preloaded into the daemon: the call that SLOW= names takes five seconds, as it can on a host where firmware, the
 * kernel or a name service is slow. SLOW_DIR= gets the files "begun" and "ended", a line for each such call.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <infiniband/verbs.h>
#include <libmnl/libmnl.h>
#include <pwd.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 5

static void note(const char *what)
{
	const char *dir = getenv("SLOW_DIR");
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir ? dir : ".", what);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	if (write(fd, "x\n", 2) != 2)
		abort();
	close(fd);
}

static void take_long(const char *call)
{
	const char *slow = getenv("SLOW");
	const struct timespec ts = { .tv_sec = SECONDS };

	if (!slow || strcmp(slow, call) != 0)
		return;
	note("begun");
	nanosleep(&ts, NULL);
	note("ended");
}

#define SLOW(type, name, params, args)                        \
	type name params                                      \
	{                                                     \
		type(*real) params = dlsym(RTLD_NEXT, #name); \
                                                              \
		take_long(#name);                             \
		return real args;                             \
	}

SLOW(int, rdma_destroy_id, (struct rdma_cm_id * id), (id))
SLOW(struct ibv_context *, ibv_open_device, (struct ibv_device * device), (device))
SLOW(ssize_t, mnl_socket_sendto, (const struct mnl_socket *nl, const void *buf, size_t len),
     (nl, buf, len))
SLOW(int, getpwnam_r,
     (const char *name, struct passwd *pwd, char *buf, size_t len, struct passwd **result),
     (name, pwd, buf, len, result))
SLOW(int, sd_journal_sendv, (const struct iovec *iov, int n), (iov, n))
