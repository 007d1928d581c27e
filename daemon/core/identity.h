/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Who is at the other end of a Unix socket, as the kernel recorded it when the client connected.
 *
 * User and groups are those of the process that connected, and stay the same whoever has the socket later.
 * Its pid is recorded too, but may belong to another process by now, because the process that connected can pass
 * the socket on and exit. From Linux 6.5 on, SO_PEERPIDFD identifies the process that connected. On an older kernel
 * the client has to prove that the process which has the pid now is at the other end. Without this proof the unit
 * is unknown, and nothing that is found by the pid (such as a QP) counts as the client's.
 *
 * A process that has given the proof can pass the socket on too. What others then do with the socket is done
 * in its name, as with any descriptor that it passes on, but only while it lives.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct identity {
	uid_t uid;
	pid_t pid;
	int pidfd; /* of the process that has PID; -1: none, or the kernel has no pidfd for it */
	bool proven; /* that process is the one at the other end */
	char question[64]; /* the name to use for the proof; empty: none requested */
	gid_t *gids; /* primary and supplementary */
	size_t n_gids;
	char *unit; /* systemd's; "": in none; NULL: not known */
};

int identity_init(struct identity *identity, int sock);
void identity_done(struct identity *identity);
/*
 * Begins the proof: returns an abstract name. As the proof, the client has to send a descriptor of a
 * listening Unix socket that is bound to this name. NULL: it is proven, or cannot be, or the proof was
 * requested before.
 */
const char *identity_ask(struct identity *identity);
/* FD is what the client sent as the proof, and can be anything; -1: it sent none. Never blocks. */
void identity_prove(struct identity *identity, int fd);
/* Sets the unit, from the result of sd_pid_get_unit() for PID: R and UNIT. IDENTITY owns UNIT. */
void identity_set_unit(struct identity *identity, int r, char *unit);
/* Why it is not known that PID is the client's, as text for users; NULL: it is known. */
const char *identity_doubt(const struct identity *identity);
/* False once the process is gone: its pid may belong to another one by now. */
bool identity_is_alive(const struct identity *identity);
