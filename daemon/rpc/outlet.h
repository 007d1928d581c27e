/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Outlets: sockets that restricted sessions have published. Who connects to an outlet gets a session with the same
 * restriction. An outlet lasts until the session ends that has published it, also while the daemon is restarted.
 *
 *   RestrictedDirectory=/  <name>/  rdmabroker.sock
 *
 * Each socket has a directory of its own, so that a container can get the directory, and see the socket if it is made
 * anew. All users can pass through RestrictedDirectory=, but only the daemon can list it, and the kernel lists the socket
 * (/proc/net/unix) by another path. So only who was told the name finds the socket.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/account.h"
#include "util/crowd.h"
#include "util/list.h"

struct core;
struct failure;
struct ledger_outlet;
struct outlet;
struct restriction;
struct session;

struct outlets {
	struct core *core;
	char *dir; /* RestrictedDirectory= */
	struct list list; /* outlet.link */
	/*
	 * Watches all outlets. One of them is served in a turn of the loop, as if they were one socket, because each source
	 * of its own would get as many turns as all clients together.
	 */
	struct crowd crowd;
	/* A client has connected to FD, whose sessions have RESTRICTION. A negative errno: FD is of no use any more. */
	int (*on_connection)(void *userdata, int fd, struct restriction *restriction);
	void *userdata;
};

/* DIR is copied. Call outlets_done() also on failure. Returns 0 or a negative errno. */
int outlets_init(struct outlets *outlets, sd_event *loop, struct core *core, const char *dir,
		 int (*on_connection)(void *userdata, int fd, struct restriction *restriction),
		 void *userdata);
void outlets_done(struct outlets *outlets); /* all outlets must be gone */
/* False: clients that connect wait. */
void outlets_set_accepting(struct outlets *outlets, bool accepting);

/*
 * Makes the outlet of SESSION, unless it has one. *RET_PATH is the socket's, and lives as long as the outlet. Returns 0,
 * STATUS_BAD_STATE, STATUS_QUOTA, STATUS_INTERNAL or a negative errno.
 */
int outlets_publish(struct outlets *outlets, struct session *session, const char **ret_path,
		    struct failure *failure);
/*
 * SESSION had published the outlet in ROW, with the socket FD, which is taken over, also on failure. Returns 0 or a
 * negative errno.
 */
int outlets_restore(struct outlets *outlets, struct session *session,
		    const struct ledger_outlet *row, int fd);
/* Removes what a previous process has left in the directory and nobody has taken over. */
void outlets_sweep(struct outlets *outlets);
struct outlet *outlet_free(struct outlet *outlet); /* takes NULL; returns NULL */
