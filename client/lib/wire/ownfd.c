/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/wire/ownfd.h"

struct ownfd ownfd_of(int fd)
{
	struct ownfd own = OWNFD_NONE;
	int error = errno;
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0)
		own = (struct ownfd){ .fd = fd, .dev = st.st_dev, .ino = st.st_ino };
	errno = error;
	return own;
}

bool ownfd_is_ours(const struct ownfd *own)
{
	int error = errno;
	struct stat st;
	bool is_ours = own->fd >= 0 && fstat(own->fd, &st) == 0 && st.st_dev == own->dev &&
		       st.st_ino == own->ino;

	errno = error;
	return is_ours;
}

void ownfd_close(struct ownfd *own)
{
	if (ownfd_is_ours(own))
		close(own->fd);
	own->fd = -1;
}
