/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Published sockets: sockets that restricted sessions have published. Who connects to a published socket gets a session
 * with the same restriction. A published socket lasts until the session ends that has published it, also while the
 * daemon is restarted.
 *
 *   RestrictedDirectory=/  <name>/  rdmabroker.sock
 *
 * Each socket has a directory of its own, so that a container can get the directory, and see the socket if it is made
 * anew. All users can pass through RestrictedDirectory=, but only the daemon can list it, and the kernel lists the
 * socket (/proc/net/unix) by another path. So only who was told the name finds the socket.
 */

#include <stdbool.h>

#include "util/crowd.h"
#include "util/list.h"

struct core;
struct failure;
struct ledger_published;
struct published;
struct restriction;
struct session;

struct published_sockets {
	struct core *core;
	char *dir; /* RestrictedDirectory= */
	struct list list; /* published.link */
	/*
	 * Watches all published sockets. One of them is served in a turn of the loop, as if they were one socket,
	 * because each source of its own would get as many turns as all clients together.
	 */
	struct crowd crowd;
	/* A client has connected to FD, whose sessions have RESTRICTION. A negative errno: FD is of no use any more. */
	int (*on_connection)(void *userdata, int fd, struct restriction *restriction);
	void *userdata;
};

/* DIR is copied. Call published_sockets_done() also on failure. Returns 0 or a negative errno. */
int published_sockets_init(struct published_sockets *published_sockets, struct core *core,
			   const char *dir,
			   int (*on_connection)(void *userdata, int fd,
						struct restriction *restriction),
			   void *userdata);
void published_sockets_done(
	struct published_sockets *published_sockets); /* all published sockets must be gone */
/* False: clients that connect wait. */
void published_sockets_set_accepting(struct published_sockets *published_sockets, bool accepting);

/*
 * Makes the published socket of SESSION, unless it has one. *RET_PATH is the socket's, and lives as long as the
 * published socket. Returns 0, STATUS_BAD_STATE, STATUS_QUOTA, STATUS_INTERNAL or a negative errno.
 */
int published_sockets_add(struct published_sockets *published_sockets, struct session *session,
			  const char **ret_path, struct failure *failure);
/*
 * SESSION had published the published socket in ROW, with the socket FD, which is taken over, also on failure. Returns
 * 0 or a negative errno.
 */
int published_sockets_restore(struct published_sockets *published_sockets, struct session *session,
			      const struct ledger_published *row, int fd);
/* Removes what is left over in the directory and was not restored. */
void published_sockets_sweep(struct published_sockets *published_sockets);
struct published *published_free(struct published *published); /* takes NULL; returns NULL */
