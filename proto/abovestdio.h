/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A program that was started with standard output closed gets number 1 for the next descriptor that is opened, and what it
 * prints then goes there. So no descriptor that a library opens for itself may have a number below 3.
 */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* FD, or -1 with errno. Returns a descriptor above 2 in its place, with FD_CLOEXEC; -1 with errno, and FD is closed. */
static inline int above_stdio(int fd)
{
	int moved, error;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	error = errno;
	close(fd);
	errno = error;
	return moved;
}
