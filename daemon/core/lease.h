/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Leases: a lease gives a session's user access to one device node. The session's opens and closes of the
 * device are counted; the lease ends with the last close.
 */

struct fabric_device;
struct failure;
struct session;

/*
 * NAME empty: the first device. Returns 0: the client's user can open the device node; -EINPROGRESS: not yet, repeat
 * the request when session_ops.resume is called; a status that FAILURE explains; or another negative errno.
 */
int lease_open(struct session *session, const char *name, struct fabric_device **ret,
	       struct failure *failure);
int lease_close(struct session *session, const char *name);
void lease_forget_device(struct session *session, const char *name); /* the device was removed */
/* Ends the leases of devices that policy no longer allows. */
void lease_enforce(struct session *session);
void lease_free_all(struct session *session);
unsigned lease_count(const struct session *session);
