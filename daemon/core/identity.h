/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Who is at the other end of a Unix socket: the kernel's word, taken when it connected.
 *
 * User and groups are those of the process that connected, and stay what they are whoever has the socket later. Its
 * pid is known likewise, but it may be another process's by now: the one that connected can pass the socket on and
 * end. Linux tells them apart from 6.5 on (SO_PEERPIDFD). Before, the client has to prove that the process which
 * has the pid now is at the other end: until then, and for good if it does not, the unit is unknown, and nothing
 * that is known by its pid belongs to the client.
 *
 * A process that has proven who it is can pass the socket on as well. What others then do with it is done in its
 * name, as with everything that it passes on, but only while it lives.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct identity {
	uid_t uid;
	pid_t pid;
	int pidfd; /* of the process that has PID; -1: there is none, or the kernel does not tell */
	bool proven; /* that process is the one at the other end */
	char question[64]; /* asked for the proof; empty: not asked */
	gid_t *gids; /* primary and supplementary */
	size_t n_gids;
	char *unit; /* systemd's, "": in none; NULL: could not be found out */
};

int identity_init(struct identity *identity, int sock);
void identity_done(struct identity *identity);
/*
 * What to ask the client for: a descriptor of a Unix socket that listens, bound to the abstract name that is
 * returned. NULL: nothing, for it is proven, or cannot be, or was asked for it before.
 */
const char *identity_ask(struct identity *identity);
/* FD is the answer, from anybody; -1: none came. Never blocks. */
void identity_prove(struct identity *identity, int fd);
/* What was found out of PID: R and UNIT, which becomes IDENTITY's, as sd_pid_get_unit() gives them. */
void identity_set_unit(struct identity *identity, int r, char *unit);
/* Why it is not known that PID is the client's, for a person; NULL: it is known. */
const char *identity_doubt(const struct identity *identity);
/* False once the process is gone: its pid may stand for another by now. */
bool identity_is_alive(const struct identity *identity);
