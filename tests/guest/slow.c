/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Preloaded into the daemon. While the file "arm" is in the folder SLOW_DIR=, the next call of the function SLOW= takes
 * until the file "release" is there, like slow firmware. The call removes "arm", and creates the files "begun" and "ended".
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <libmnl/libmnl.h>
#include <pwd.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/acl.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#include <systemd/sd-login.h>
#include <time.h>
#include <unistd.h>

static const char *path_of(char buf[256], const char *name)
{
	const char *dir = getenv("SLOW_DIR");

	snprintf(buf, 256, "%s/%s", dir ? dir : ".", name);
	return buf;
}

static void note(const char *what)
{
	char path[256];
	int fd = open(path_of(path, what), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd >= 0)
		close(fd);
}

static void take_long(const char *call)
{
	const char *slow = getenv("SLOW");
	const struct timespec ts = { .tv_nsec = 50 * 1000000 };
	char path[256];

	if (!slow || strcmp(slow, call) != 0 || unlink(path_of(path, "arm")) < 0)
		return;
	note("begun");
	while (access(path_of(path, "release"), F_OK) < 0)
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
SLOW(ssize_t, mnl_socket_sendto, (const struct mnl_socket *nl, const void *buf, size_t len),
     (nl, buf, len))
SLOW(int, acl_set_file, (const char *path, acl_type_t type, acl_t acl), (path, type, acl))
SLOW(int, sd_pid_get_unit, (pid_t pid, char **unit), (pid, unit))
SLOW(int, getpwnam_r,
     (const char *name, struct passwd *pwd, char *buf, size_t len, struct passwd **result),
     (name, pwd, buf, len, result))
SLOW(int, sd_journal_sendv, (const struct iovec *iov, int n), (iov, n))
