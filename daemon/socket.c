/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "proto/unixsock.h"
#include "socket.h"
#include "util/log.h"
#include "util/util.h"

#define BACKLOG 512

/* The names in FileDescriptorName= of the socket units. The unit of DOOR_COMMON has none, so systemd uses the unit's. */
static enum door door_of(const char *name)
{
	if (strcmp(name, "admin") == 0)
		return DOOR_ADMIN;
	if (strcmp(name, "helper") == 0)
		return DOOR_HELPER;
	return DOOR_COMMON;
}

static int complain(const char *what)
{
	log_error("Cannot use the sockets that systemd passed: %s. There must be one listening "
		  "SOCK_SEQPACKET socket for each of the units rdmabrokerd.socket, "
		  "rdmabrokerd-admin.socket and rdmabrokerd-helper.socket.",
		  what);
	return -EINVAL;
}

/* Adds one that systemd has passed. */
static int add(struct sockets *sockets, int fd, const char *name)
{
	enum door door = door_of(name);

	if (sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, 1) <= 0)
		return complain("one has another type");
	if (sockets->fds[door] >= 0)
		return complain("two have the same name");
	sockets->fds[door] = fd;
	return 0;
}

static int take_from_systemd(struct sockets *sockets, unsigned n_stored)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(/* unset_environment= */ 1, &names), r = n < 0 ? n : 0;

	for (int i = 0; i < n; i++) {
		int fd = SD_LISTEN_FDS_START + i;

		if (r == 0 && sd_is_socket(fd, AF_UNSPEC, 0, /* listening= */ 1) > 0)
			r = add(sockets, fd, names[i]);
		else if (r == 0 && n_stored-- == 0)
			r = complain("one does not listen");
		free(names[i]);
	}
	free(names);
	return r;
}

static int make(struct sockets *sockets, enum door door, const char *path)
{
	_cleanup_free_ char *own = strdup(path);
	/* Everybody may connect to the common one, because policy decides what each user can do. */
	int fd = own ? unixsock_listen(path, SOCK_SEQPACKET, door == DOOR_COMMON ? 0666 : 0600,
				       BACKLOG) :
		       -ENOMEM;
	bool tolerable;

	if (fd >= 0) {
		sockets->fds[door] = fd;
		sockets->own[door] = TAKE_PTR(own);
		return 0;
	}
	/* Without a place for the others, the daemon serves its clients all the same. */
	tolerable = door != DOOR_COMMON &&
		    (fd == -ENOENT || fd == -EACCES || fd == -EPERM || fd == -EROFS);
	log_msg(tolerable ? LOG_WARNING : LOG_ERR, "Cannot listen on %s: %s.", path,
		fd == -EADDRINUSE ? "another broker listens there" : strerror(-fd));
	return tolerable ? 0 : fd;
}

int sockets_open(struct sockets *ret, const char *const paths[_DOOR_MAX], unsigned n_stored)
{
	bool makes_all;
	int r;

	*ret = (struct sockets){ .fds = { -1, -1, -1 } };
	r = take_from_systemd(ret, n_stored);
	makes_all = ret->fds[DOOR_COMMON] < 0;
	for (int i = 0; i < _DOOR_MAX && makes_all && r == 0; i++)
		if (ret->fds[i] < 0 && paths[i])
			r = make(ret, (enum door)i, paths[i]);
	if (r < 0) {
		for (int i = 0; i < _DOOR_MAX; i++)
			closep(&ret->fds[i]);
		return r;
	}
	if (ret->fds[DOOR_ADMIN] < 0)
		log_warning("There is no socket for administration: only a rule for \"admin\" lets "
			    "anybody, also root, reload the policy or end sessions. systemd makes "
			    "the socket: systemctl restart rdmabrokerd.");
	return 0;
}

void sockets_remove(struct sockets *sockets)
{
	for (int i = 0; i < _DOOR_MAX; i++) {
		if (sockets->own[i])
			unlink(sockets->own[i]);
		free(sockets->own[i]);
		sockets->own[i] = NULL;
	}
}
