/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "core/identity.h"
#include "util/util.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5, later than the C library's headers */
#endif

static int get_gids(int sock, gid_t primary, gid_t **ret, size_t *ret_n)
{
	_cleanup_free_ gid_t *gids = NULL;
	socklen_t len = 32 * sizeof(gid_t);

	for (;;) {
		gid_t *p = realloc(gids, sizeof(gid_t) + len);

		if (!p)
			return -ENOMEM;
		gids = p;
		if (getsockopt(sock, SOL_SOCKET, SO_PEERGROUPS, gids + 1, &len) == 0)
			break;
		if (errno != ERANGE) /* else LEN now says how much is needed */
			return -errno;
	}
	gids[0] = primary;
	*ret_n = 1 + len / sizeof(gid_t);
	*ret = TAKE_PTR(gids);
	return 0;
}

static int get_pidfd(int sock, pid_t pid)
{
	socklen_t len = sizeof(int);
	int fd;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0)
		return fd;
	/*
	 * On older kernels the pid may have been reused since connect(). That gains nothing: the uid is
	 * the peer's own, and so a QP that belongs to the new process would have to be of the same user.
	 */
	return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

/* Of the process that PIDFD stands for: by the time of asking, its pid may be another's. */
static char *get_unit(pid_t pid, int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	char *unit = NULL;
	int r = sd_pid_get_unit(pid, &unit);

	if (r == -ENODATA)
		unit = strdup("");
	else if (r < 0)
		return NULL;
	if (pidfd >= 0 && poll(&p, 1, 0) > 0) {
		free(unit);
		return NULL;
	}
	return unit;
}

int identity_init(struct identity *identity, int sock)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int r;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	*identity = (struct identity){ .uid = cred.uid, .pid = cred.pid, .pidfd = -1 };
	r = get_gids(sock, cred.gid, &identity->gids, &identity->n_gids);
	if (r < 0)
		return r;
	identity->pidfd = get_pidfd(sock, cred.pid);
	if (cred.pid > 0)
		identity->unit = get_unit(cred.pid, identity->pidfd);
	return 0;
}

void identity_done(struct identity *identity)
{
	closep(&identity->pidfd);
	identity->pidfd = -1;
	free(identity->gids);
	identity->gids = NULL;
	free(identity->unit);
	identity->unit = NULL;
	identity->n_gids = 0;
}

bool identity_is_alive(const struct identity *identity)
{
	struct pollfd p = { .fd = identity->pidfd, .events = POLLIN };

	return identity->pidfd < 0 || poll(&p, 1, 0) <= 0;
}
