/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The user that the units give to the daemon. If root makes the check of the files, it takes on this user, because root
 * can read all files: so it finds what the daemon would find.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DAEMON_USER "rdmabroker"

/* False: there is no such user on this host, or it cannot be looked up. */
bool daemonuser_find(uid_t *ret_uid, gid_t *ret_gid);

struct daemonuser {
	bool is_taken;
	/* what to restore */
	gid_t gid;
	gid_t *groups;
	size_t n_groups;
};

/*
 * Takes on the daemon's user and its groups, if the caller is root and there is such a user. Otherwise nothing changes.
 * The process must have one thread, because the others would change, too. Call daemonuser_give_back() afterwards.
 */
void daemonuser_take(struct daemonuser *ret);
void daemonuser_give_back(struct daemonuser *user);
