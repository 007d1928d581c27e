/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Preloaded into the programs that run in the emulator, because qemu-user 7.2 does not know SO_COOKIE: a socket's inode
 * number tells it apart from all others as well.
 */
int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict len)
{
	unsigned long long cookie;
	struct stat st;

	if (level != SOL_SOCKET || name != SO_COOKIE)
		return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
	if (*len < sizeof(cookie)) {
		errno = EINVAL;
		return -1;
	}
	if (fstat(fd, &st) < 0)
		return -1;
	if (!S_ISSOCK(st.st_mode)) {
		errno = ENOTSOCK;
		return -1;
	}
	cookie = st.st_ino;
	memcpy(value, &cookie, sizeof(cookie));
	*len = sizeof(cookie);
	return 0;
}
