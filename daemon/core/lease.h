/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Leases: a lease gives a session's user access to one device node. The session's opens and closes of the
 * device are counted. The lease ends with the last close or, before that, when the device is removed, policy no
 * longer allows it, or the session ends.
 */

struct fabric_device;
struct failure;
struct session;

/*
 * Counts an open of device NAME by SESSION, and creates the lease if there is none. NAME empty: the first device.
 * *RET is the device. Returns 0: the client's user can open the device node; -EINPROGRESS: not yet, repeat the
 * request when session_ops.resume is called; a status that FAILURE explains; or another negative errno.
 */
int lease_open(struct session *session, const char *name, struct fabric_device **ret,
	       struct failure *failure);
int lease_close(struct session *session, const char *name);
void lease_forget_device(struct session *session, const char *name); /* the device was removed */
/* Ends the leases of devices that policy no longer allows. */
void lease_enforce(struct session *session);
void lease_free_all(struct session *session);
unsigned lease_count(const struct session *session);
