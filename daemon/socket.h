/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The listening socket: systemd's where it gave one, else one made at PATH, which *ret_own then names.
 * A socket that nobody listens on any more is replaced. Returns the descriptor or a negative errno,
 * logged.
 */
int socket_open(const char *path, char **ret_own);
