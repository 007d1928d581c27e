/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <sys/types.h>

/*
 * The listening socket: systemd's if it passed one, else one created at PATH; then *ret_own is that path. A
 * socket on which nobody listens any more is replaced. Returns the descriptor, or a negative errno, which was
 * logged.
 */
int socket_open(const char *path, char **ret_own);

/*
 * A listening Unix socket of TYPE (SOCK_STREAM, ...) at PATH. Returns the descriptor, -EADDRINUSE: somebody
 * listens there, -EEXIST: something that is no socket is there, or another negative errno; not logged.
 */
int socket_listen_unix(const char *path, int type, mode_t mode);
