/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The admins' control of the daemon: they reload its configuration and policy. */

#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"

struct diag;
struct failure;
struct policy;
struct published_sockets;
struct restriction;
struct server;
struct session;

struct control {
	uint64_t (*reload)(void *userdata, bool dry_run); /* see server_new() */
	void *userdata;
	struct published_sockets *published_sockets;
	/*
	 * Serves the client at the other end of SOCK, whose copy stays the caller's. Returns 0, STATUS_BAD_REQUEST,
	 * STATUS_QUOTA or a negative errno.
	 */
	int (*adopt)(struct server *server, int sock, struct restriction *restriction,
		     struct failure *failure);
	struct server *server;
	char *policy_error;
	/* reloads, and dry runs (1) */
	struct control_reloads {
		struct list waiting; /* session.waiting: the sessions that wait for one */
		uint64_t ticket; /* ticket of the last one that is done; 0: none */
		int r;
		struct diag *diag;
	} reloads[2];
	/* the policy of the last dry run, whose number is its ticket; NULL: it failed, or a reload was later */
	struct policy *dry_policy;
};

void control_init(struct control *control, uint64_t (*reload)(void *userdata, bool dry_run),
		  void *userdata);
void control_done(struct control *control);

/*
 * Stores a copy of ERROR, the first error of the last reload or of the start; NULL: none. An error in a file has the
 * form "file:line:column: text".
 */
void control_set_policy_error(struct control *control, const char *error);
const char *control_get_policy_error(const struct control *control); /* never NULL */

/*
 * To be called when all reloads, or dry runs, up to TICKET are done. R is the result of the last of them: 0, or a negative
 * errno. DIAG has its errors. DIAG is taken over, and is allowed to be NULL. POLICY is what was read, if R is 0.
 */
void control_reloaded(struct control *control, bool dry_run, uint64_t ticket, int r,
		      struct diag *diag, struct policy *policy);
/*
 * Starts a reload or a dry run for SESSION's request and sets *TICKET. If AGAIN is true, the request is repeated: starts
 * nothing, because *TICKET already is the ticket of the request's reload. Returns -EINPROGRESS if it is not done yet:
 * then the request is resumed later. Otherwise returns R of control_reloaded(), and sets *RET_DIAG, which stays the
 * control's and can be NULL.
 */
int control_reload(struct control *control, struct session *session, bool dry_run, uint64_t *ticket,
		   bool again, const struct diag **ret_diag);
/* The policy of the dry run NUMBER; NULL: it is no longer, or has never been, there. */
struct policy *control_get_dry_policy(const struct control *control, uint64_t number);
