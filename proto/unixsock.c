/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/unixsock.h"

/*
 * Removes a socket file on which nobody listens. A connect to a file that is no socket is refused too, so the type is
 * checked first.
 */
static int remove_stale(int fd, const struct sockaddr_un *addr)
{
	struct stat st;

	if (lstat(addr->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 && errno == ECONNREFUSED)
		unlink(addr->sun_path);
	return 0;
}

static int listen_at(int fd, const struct sockaddr_un *addr, mode_t mode, int backlog)
{
	int r = remove_stale(fd, addr);

	if (r < 0)
		return r;
	/*
	 * bind() gives the descriptor's mode, less the umask, to the file. So the file's mode is at no time wider
	 * than MODE.
	 */
	if (fchmod(fd, mode) < 0 || bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0)
		return -errno;
	if (chmod(addr->sun_path, mode) == 0 && listen(fd, backlog) == 0)
		return 0;
	r = -errno;
	unlink(addr->sun_path);
	return r;
}

static int set_path(struct sockaddr_un *ret, const char *path)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	strcpy(ret->sun_path, path);
	return 0;
}

static int make(int type)
{
	int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

int unixsock_listen(const char *path, int type, mode_t mode, int backlog)
{
	struct sockaddr_un addr;
	int r = set_path(&addr, path), fd = r < 0 ? r : make(type);

	if (fd < 0)
		return fd;
	r = listen_at(fd, &addr, mode, backlog);
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

int unixsock_connect(const char *path, int type)
{
	struct sockaddr_un addr;
	int r = set_path(&addr, path), fd = r < 0 ? r : make(type);

	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}
