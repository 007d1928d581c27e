/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The identity of a client: the process that connected to the Unix socket, with the user and groups that it had then.
 *
 * The pid can belong to a later process, because the client can pass the socket on and exit. From Linux 6.5 on,
 * SO_PEERPIDFD identifies the client. On an older kernel the client has to prove that it is the process that has the
 * pid. Without this proof its unit and its
 * container, for example, are unknown, and no QP counts as the client's.
 *
 * Requests of a process that got the socket from the client count as the client's own, as long as the client lives.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/facts/workload.h"
#include "util/owner.h"

/*
 * A user can have 65,536 groups in a user namespace of his own. The groups of a process with more than this number are
 * unknown: a part of them could lack the one that a reject rule names.
 */
#define IDENTITY_GIDS_MAX 1024

struct identity {
	uid_t uid;
	struct owner owner; /* who has to answer for it; a restart keeps him */
	pid_t pid;
	/* of the client or, unless PROVEN, possibly of a later process with its pid; -1: none could be opened */
	int pidfd;
	/*
	 * The socket is one end of a pair that the client has made and sent. A process can have got such an end from
	 * another one, so the client must prove that it has made it to use it here, also if PROVEN.
	 */
	bool adopts;
	bool proven; /* the process of PIDFD is known to be the client */
	char question[64]; /* the name for the proof; empty: no proof was requested */
	gid_t *gids; /* the primary group and the supplementary ones, sorted */
	size_t n_gids;
	bool too_many_gids; /* there are more than IDENTITY_GIDS_MAX; GIDS is NULL */
	struct workload workload;
};

int identity_init(struct identity *identity, int sock);
/* A guess at the owner of who has connected to SOCK, which costs little. Returns 0 or a negative errno. */
int identity_find_owner(struct owner *ret, int sock);
void identity_done(struct identity *identity);
/*
 * Begins the proof: the client has to send a listening Unix socket that is bound to the returned name, in the
 * abstract namespace. NULL: a proof is not needed, not possible, or was requested before.
 */
const char *identity_ask(struct identity *identity);
/*
 * Sets PROVEN if FD is the proof. FD comes from the client and can be anything; -1: none. The caller keeps FD. Never
 * blocks.
 */
void identity_prove(struct identity *identity, int fd);
/* Takes the names in FOUND, the result of a look-up of PID, if the process still lives. */
void identity_set_workload(struct identity *identity, struct workload *found);
/* Why it is not known whether PID is the client's, as text for users; NULL: it is known. */
const char *identity_doubt(const struct identity *identity);
/*
 * Whether a warn rule lets the client bind ports below 1024, as the kernel would: it was root when it connected, and has
 * CAP_NET_BIND_SERVICE in the initial user namespace. False also if that is not known, and for another user whose process
 * has the capability, see identity.c. (rdma_cm does not look at net.ipv4.ip_unprivileged_port_start.)
 */
bool identity_may_bind_low(const struct identity *identity);
/* False: the process of PIDFD has ended, or there is no PIDFD. PID can belong to another process then. */
bool identity_is_alive(const struct identity *identity);
