/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Opens the listening socket: the one that systemd passed, else a new one at PATH, and then *RET_OWN is a
 * copy of PATH. A socket file on which nobody listens any more is replaced. Returns the descriptor, or a
 * negative errno, which was logged.
 */
int socket_open(const char *path, char **ret_own);
