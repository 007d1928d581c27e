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

static bool is_stale(int fd, const struct sockaddr_un *addr)
{
	return connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 &&
	       errno == ECONNREFUSED;
}

static int make(const char *path, char **ret_own)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	_cleanup_free_ char *own = strdup(path);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int r;

	if (fd < 0)
		return -errno;
	if (!own)
		return -ENOMEM;
	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);

	if (is_stale(fd, &addr))
		unlink(path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	/* Everybody may connect: who may do what is the policy's to say. */
	r = chmod(path, 0666) < 0 || listen(fd, BACKLOG) < 0 ? -errno : 0;
	if (r < 0) {
		unlink(path);
		return r;
	}
	*ret_own = TAKE_PTR(own);
	return TAKE_FD(fd);
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
