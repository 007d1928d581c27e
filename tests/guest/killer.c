/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Preloaded into the daemon. While the file "arm" is in the folder KILLER_DIR=, it has a number N. Then the daemon is
 * killed at the N-th of these instants, counted from 1: before and after each call that speaks to the kernel's connection
 * manager, or to a client. "arm" is removed first. "cN" instead of a number: the daemon is killed after the kernel's
 * connection manager has got its next command N, an RDMA_USER_CM_CMD_* of rdma/rdma_user_cm.h.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static long left; /* instants; 0: not armed */
static long command = -1; /* -1: not armed */

static void arm(void)
{
	const char *dir = getenv("KILLER_DIR");
	char path[256], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/arm", dir ? dir : ".");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) > 0) {
		if (text[0] == 'c')
			command = atol(text + 1);
		else
			left = atol(text);
	}
	close(fd);
	unlink(path);
}

static void instant(void)
{
	int saved = errno;

	if (left == 0 && command < 0)
		arm();
	else if (left > 0 && --left == 0)
		kill(getpid(), SIGKILL);
	errno = saved;
}

#define WRAP(type, name, params, args)                        \
	type name params                                      \
	{                                                     \
		type(*real) params = dlsym(RTLD_NEXT, #name); \
		type r;                                       \
                                                              \
		instant();                                    \
		r = real args;                                \
		instant();                                    \
		return r;                                     \
	}

ssize_t write(int fd, const void *buf, size_t len)
{
	ssize_t (*real)(int fd, const void *buf, size_t len) = dlsym(RTLD_NEXT, "write");
	const struct {
		uint32_t command;
		uint16_t in, out;
	} *header = buf;
	ssize_t r;

	instant();
	r = real(fd, buf, len);
	/* The kernel's header has the length of the rest. */
	if (command >= 0 && len >= sizeof(*header) && header->command == (uint32_t)command &&
	    header->in + sizeof(*header) == len)
		kill(getpid(), SIGKILL);
	instant();
	return r;
}

WRAP(int, sendmmsg, (int fd, struct mmsghdr *msg, unsigned n, int flags), (fd, msg, n, flags))
WRAP(int, recvmmsg, (int fd, struct mmsghdr *msg, unsigned n, int flags, struct timespec *timeout),
     (fd, msg, n, flags, timeout))
