/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Who is at the other end of a Unix socket: the kernel's word, taken when it connected. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct identity {
	uid_t uid;
	pid_t pid;
	int pidfd; /* -1: the kernel has none to give */
	gid_t *gids; /* primary and supplementary */
	size_t n_gids;
	char *unit; /* systemd's, "": in none; NULL: could not be found out */
};

int identity_init(struct identity *identity, int sock);
void identity_done(struct identity *identity);
/* False once the process is known to be gone: its pid may stand for another by now. */
bool identity_is_alive(const struct identity *identity);
