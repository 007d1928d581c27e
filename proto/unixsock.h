/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <sys/types.h>

/*
 * Creates a listening Unix socket of TYPE (SOCK_STREAM, ...) at PATH. A socket file on which nobody listens
 * any more is replaced. Returns the descriptor; -EADDRINUSE: somebody listens on PATH; -EEXIST: PATH is a file
 * that is no socket; or another negative errno.
 */
int unixsock_listen(const char *path, int type, mode_t mode, int backlog);
