/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/lib/wire/ownfd.h"

/* The C library's fstat() asks for an empty path below FD, for which the kernel needs far longer. */
static int look(int fd, struct stat *ret)
{
#if defined(SYS_fstat) && defined(__LP64__)
	return (int)syscall(SYS_fstat, fd, ret);
#else
	return fstat(fd, ret);
#endif
}

struct ownfd ownfd_of(int fd)
{
	struct ownfd own = OWNFD_NONE;
	int error = errno;
	struct stat st;

	if (fd >= 0 && look(fd, &st) == 0)
		own = (struct ownfd){ .fd = fd, .dev = st.st_dev, .ino = st.st_ino };
	errno = error;
	return own;
}

bool ownfd_look(const struct ownfd *own, struct stat *ret)
{
	int error = errno;
	bool is_ours = own->fd >= 0 && look(own->fd, ret) == 0 && ret->st_dev == own->dev &&
		       ret->st_ino == own->ino;

	errno = error;
	return is_ours;
}

bool ownfd_is_ours(const struct ownfd *own)
{
	struct stat ignored;

	return ownfd_look(own, &ignored);
}

void ownfd_close(struct ownfd *own)
{
	if (ownfd_is_ours(own))
		close(own->fd);
	own->fd = -1;
}
