/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "core/facts/door.h"

/* The listening sockets. */
struct sockets {
	int fds[_DOOR_MAX]; /* -1: the door does not exist */
	char *own
		[_DOOR_MAX]; /* the paths of those that this process has made; NULL: systemd owns the socket */
};

/*
 * Opens the sockets that systemd passed. If there is none for everybody, makes all that are missing, at PATHS (NULL:
 * the door does not exist). A socket file on which nobody listens is replaced. N_STORED: the number of descriptors that
 * systemd has passed from its store (takeover/fdstore.h). The caller takes RET.fds. Returns 0 or a negative errno,
 * which was logged.
 */
int sockets_open(struct sockets *ret, const char *const paths[_DOOR_MAX], unsigned n_stored);
/* Removes the files of the sockets that this process has made. */
void sockets_remove(struct sockets *sockets);
