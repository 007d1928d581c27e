/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "proto/unixsock.h"
#include "socket.h"
#include "util/log.h"
#include "util/util.h"

#define BACKLOG 512

static int from_systemd(int n)
{
	if (n > 1 || sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_SEQPACKET, 1) <= 0) {
		log_error("Cannot use the sockets that systemd passed: there must be exactly one "
			  "listening SOCK_SEQPACKET socket. See ListenSequentialPacket= in "
			  "rdmabrokerd.socket.");
		return -EINVAL;
	}
	return SD_LISTEN_FDS_START;
}

/* The mode lets everybody connect, because policy decides what each user can do. */
static int make(const char *path, char **ret_own)
{
	_cleanup_free_ char *own = strdup(path);
	int fd;

	if (!own)
		return -ENOMEM;
	fd = unixsock_listen(path, SOCK_SEQPACKET, 0666, BACKLOG);
	if (fd >= 0)
		*ret_own = TAKE_PTR(own);
	return fd;
}

int socket_open(const char *path, unsigned n_stored, char **ret_own)
{
	int n = sd_listen_fds(/* unset_environment= */ 1), r;

	if (n >= (int)n_stored)
		n -= (int)n_stored;

	if (n > 0)
		return from_systemd(n);
	r = n < 0 ? n : make(path, ret_own);
	if (r == -EADDRINUSE)
		log_error("Cannot listen on %s: another broker listens there.", path);
	else if (r < 0)
		log_error("Cannot listen on %s: %s.", path, strerror(-r));
	return r;
}
