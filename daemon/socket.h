/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The listening socket: systemd's if it passed one, else one created at PATH; then *ret_own is that path. A
 * socket on which nobody listens any more is replaced. Returns the descriptor, or a negative errno, which was
 * logged.
 */
int socket_open(const char *path, char **ret_own);
