/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <sys/types.h>

/*
 * A listening Unix socket of TYPE (SOCK_STREAM, ...) at PATH. A socket on which nobody listens any more is replaced.
 * Returns the descriptor, -EADDRINUSE: somebody listens there, -EEXIST: something that is no socket is there, or
 * another negative errno.
 */
int unixsock_listen(const char *path, int type, mode_t mode, int backlog);
