/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <sys/types.h>

/*
 * Creates a Unix socket of TYPE (SOCK_STREAM, ...) that listens at PATH. Replaces a socket file on which nobody
 * listens. Returns the descriptor; -EADDRINUSE: somebody listens on PATH; -EEXIST: PATH is no socket; or another
 * negative errno.
 */
int unixsock_listen(const char *path, int type, mode_t mode, int backlog);
/* Returns a descriptor that is connected to the socket that listens at PATH, and does not block; or a negative errno. */
int unixsock_connect(const char *path, int type);
