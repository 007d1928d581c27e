/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/bench/host/host.h"

static struct traffic traffic;
static bool in_wait; /* this call has received a packet, and has sent none since */

/* These replace the functions of libc by which the library sends and receives. */

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t n = syscall(SYS_sendmsg, fd, message, flags);

	if (n > 0) {
		traffic.packets++;
		in_wait = false;
	}
	return n;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t n = syscall(SYS_recvmsg, fd, message, flags);

	if (n > 0) {
		traffic.packets++;
		traffic.waits += !in_wait;
		in_wait = true;
	}
	return n;
}

struct traffic traffic_get(void)
{
	return traffic;
}

void traffic_begin_call(void)
{
	in_wait = false;
}
