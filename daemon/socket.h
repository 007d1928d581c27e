/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <sys/types.h>

/*
 * The listening socket: systemd's where it gave one, else one made at PATH, which *ret_own then names.
 * A socket that nobody listens on any more is replaced. Returns the descriptor or a negative errno,
 * logged.
 */
int socket_open(const char *path, char **ret_own);

/*
 * A listening Unix socket of TYPE (SOCK_STREAM, ...) at PATH. Returns the descriptor, -EADDRINUSE: somebody
 * listens there, -EEXIST: something that is no socket is there, or another negative errno; not logged.
 */
int socket_listen_unix(const char *path, int type, mode_t mode);
