/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A descriptor that the library has opened, and that the program does not know of. Programs close descriptors that they
 * have not opened, and open their own, which get the same numbers. So before the library uses a number, it looks whether
 * its own file is still behind it: by device and inode, which each socket, pipe and device node has of its own. What the
 * kernel calls anonymous inodes (epoll, eventfd) have one inode together, so they cannot be told from one another.
 */

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct ownfd {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
};

#define OWNFD_NONE       \
	(struct ownfd)   \
	{                \
		.fd = -1 \
	}

/* FD, which was just opened; -1: none. */
struct ownfd ownfd_of(int fd);
/* False: there is no descriptor, or its number is closed, or the program's. */
bool ownfd_is_ours(const struct ownfd *own);
/* As ownfd_is_ours(). True: RET is what fstat(2) says of it. */
bool ownfd_look(const struct ownfd *own, struct stat *ret);
/* Closes it, unless it is the program's by now. */
void ownfd_close(struct ownfd *own);
