/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Opens the listening socket: the one that systemd passed, else a new one at PATH. For a new one, *RET_OWN
 * becomes a copy of PATH, which the caller frees. A socket file on which nobody listens any more is replaced.
 * N_STORED: how many descriptors systemd has passed besides, from its store (keep/store.h).
 * Returns the descriptor, or a negative errno, which was logged.
 */
int socket_open(const char *path, unsigned n_stored, char **ret_own);
