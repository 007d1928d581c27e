/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Opens the listening socket: the one that systemd passed, else a new one at PATH. A socket file on which
 * nobody listens is replaced. *RET_OWN: a copy of PATH for a new socket, which the caller frees. N_STORED:
 * the number of descriptors that systemd has passed from its store (keep/store.h). Returns the descriptor, or
 * a negative errno, which was logged.
 */
int socket_open(const char *path, unsigned n_stored, char **ret_own);
