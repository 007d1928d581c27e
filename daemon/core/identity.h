/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The identity of a client: which process connected to the Unix socket, as the kernel recorded it.
 *
 * User and groups are those of the process that connected. They do not change if the socket is passed on to
 * another process. The pid is recorded too, but may belong to another process by now, because the process
 * that connected can pass the socket on and exit. From Linux 6.5 on, SO_PEERPIDFD identifies the process that
 * connected. On an older kernel the client has to prove that the process which has the pid now is the client.
 * Without this proof the client's unit is unknown, and nothing that is found by the pid (such as a QP) counts as the
 * client's.
 *
 * A process that has given the proof can pass the socket on too. Then requests of other processes count as its own,
 * as with any descriptor that a process passes on, but only while the process that gave the proof lives.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct identity {
	uid_t uid;
	pid_t pid;
	/*
	 * of the process that connected or, as long as PROVEN is false, possibly of a later process with its pid;
	 * -1: none could be opened
	 */
	int pidfd;
	bool proven; /* the process of PIDFD is known to be the client */
	char question[64]; /* the name that the proof has to use; empty: no proof was requested */
	gid_t *gids; /* the primary group and the supplementary ones */
	size_t n_gids;
	char *unit; /* systemd unit; "": in none; NULL: not known */
};

int identity_init(struct identity *identity, int sock);
void identity_done(struct identity *identity);
/*
 * Begins the proof: returns a name in the abstract namespace of Unix sockets. As the proof, the client has to send a
 * descriptor of a listening Unix socket that is bound to this name. NULL: the identity is proven already, or
 * cannot be proven, or the proof was requested before.
 */
const char *identity_ask(struct identity *identity);
/*
 * Checks the proof, and sets PROVEN if the proof is valid. FD comes from the client and can be anything; -1: the
 * client sent none. The caller keeps FD. Never blocks.
 */
void identity_prove(struct identity *identity, int fd);
/*
 * Sets identity.unit to the result of a look-up, if the look-up succeeded and the process still lives. R and UNIT are
 * the results of sd_pid_get_unit() for PID; -ENODATA: the process is in no unit. Takes over UNIT.
 */
void identity_set_unit(struct identity *identity, int r, char *unit);
/* The reason, as text for users, why it is not known whether PID is the client's; NULL: it is known. */
const char *identity_doubt(const struct identity *identity);
/* False: the process of PIDFD has ended, or there is no PIDFD. Then PID can belong to another process. */
bool identity_is_alive(const struct identity *identity);
