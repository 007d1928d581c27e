/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "socket.h"
#include "util/log.h"
#include "util/util.h"

#define BACKLOG 512

static int from_systemd(int n)
{
	if (n > 1 || sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_SEQPACKET, 1) <= 0) {
		log_error("systemd passed something else than one listening SOCK_SEQPACKET socket: "
			  "see ListenSequentialPacket= in rdmabrokerd.socket.");
		return -EINVAL;
	}
	return SD_LISTEN_FDS_START;
}

/* A file that is no socket refuses connections too, but must not be removed. */
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

int socket_listen_unix(const char *path, int type, mode_t mode)
{
	_cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int r;

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);

	r = remove_stale(fd, &addr);
	if (r < 0)
		return r;
	/*
	 * The node gets the descriptor's mode, less the umask, so at no time may more users connect than MODE
	 * allows.
	 */
	if (fchmod(fd, mode) < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	r = chmod(path, mode) < 0 || listen(fd, BACKLOG) < 0 ? -errno : 0;
	if (r < 0) {
		unlink(path);
		return r;
	}
	return TAKE_FD(fd);
}

/* Everybody may connect; policy decides who may do what. */
static int make(const char *path, char **ret_own)
{
	_cleanup_free_ char *own = strdup(path);
	int fd;

	if (!own)
		return -ENOMEM;
	fd = socket_listen_unix(path, SOCK_SEQPACKET, 0666);
	if (fd >= 0)
		*ret_own = TAKE_PTR(own);
	return fd;
}

int socket_open(const char *path, char **ret_own)
{
	int n = sd_listen_fds(/* unset_environment= */ 1);
	int r;

	if (n > 0)
		return from_systemd(n);
	r = n < 0 ? n : make(path, ret_own);
	if (r == -EADDRINUSE)
		log_error("Another broker serves on %s.", path);
	else if (r < 0)
		log_error("Cannot listen on %s: %s.", path, strerror(-r));
	return r;
}
